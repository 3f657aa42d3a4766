#pragma once
// Tokens that lie in runs ("segments") of mapped files, each with its own width: the common ground
// of all file formats. A reader of a format only says where the tokens are.

#include "data/mapped_file.hpp"
#include "data/token_source.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace adaptra::data {

/// How a token is stored; little-endian.
enum class Stored { u8, i8, u16, i16, i32, i64 };

/// Bytes of a stored token.
std::int64_t width_bytes(Stored stored);

/// A run of tokens in a file.
struct Segment {
  std::size_t file = 0;  ///< which of the files
  std::int64_t offset_bytes = 0;
  std::int64_t tokens = 0;
  Stored stored = Stored::u16;
};

class SegmentTokens final : public TokenSource {
 public:
  /// The segments one after the other; empty ones may be left out by the caller. Every segment lies
  /// inside its file (the reader of the format has checked it). Throws Error{file} where there is
  /// no token at all.
  SegmentTokens(std::vector<MappedFile> files, std::vector<Segment> segments,
                std::int64_t vocabulary);

  std::int64_t size() const override { return size_; }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  void copy(std::int64_t begin, std::span<std::int32_t> out) const override;

 private:
  std::vector<MappedFile> files_;
  std::vector<Segment> segments_;
  std::vector<std::int64_t> begins_;  // first token of each segment
  std::int64_t vocabulary_;
  std::int64_t size_ = 0;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace adaptra::data
