#include "data/segment_tokens.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

namespace adaptra::data {
namespace {

constexpr std::uint64_t fnv_start = 0xcbf29ce484222325ULL;

std::uint64_t hash(std::uint64_t seed, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);  // FNV-1a
  for (std::size_t i = 0; i < size; ++i) seed = (seed ^ bytes[i]) * 0x100000001b3ULL;
  return seed;
}

struct Origin {
  const MappedFile& file;
  std::int64_t offset_bytes;
  std::int64_t vocabulary;
};

[[noreturn]] void bad_id(const Origin& origin, std::int64_t index, std::int64_t width,
                         std::int64_t token) {
  throw Error(
      ExitCode::file,
      fmt::format("{}: token {} at byte {} is not {} model.vocabulary = {}: the data were made "
                  "with another vocabulary, or the file is no {}-bit token file",
                  origin.file.path(), token, origin.offset_bytes + index * width,
                  token < 0 ? "between 0 and" : "below", origin.vocabulary, 8 * width));
}

// Tokens may lie at any address: memcpy, never a cast.
template <typename T>
void widen(const Origin& origin, std::span<std::int32_t> out) {
  const std::byte* from = origin.file.bytes().data() + origin.offset_bytes;
  for (std::size_t i = 0; i < out.size(); ++i) {
    T token;
    std::memcpy(&token, from + i * sizeof token, sizeof token);
    if (token < 0 || std::int64_t{token} >= origin.vocabulary) {
      bad_id(origin, static_cast<std::int64_t>(i), sizeof token, token);
    }
    out[i] = static_cast<std::int32_t>(token);
  }
}

void widen(Stored stored, const Origin& origin, std::span<std::int32_t> out) {
  switch (stored) {
    case Stored::u8:
      return widen<std::uint8_t>(origin, out);
    case Stored::i8:
      return widen<std::int8_t>(origin, out);
    case Stored::u16:
      return widen<std::uint16_t>(origin, out);
    case Stored::i16:
      return widen<std::int16_t>(origin, out);
    case Stored::i32:
      return widen<std::int32_t>(origin, out);
    case Stored::i64:
      return widen<std::int64_t>(origin, out);
  }
}

}  // namespace

std::int64_t width_bytes(Stored stored) {
  switch (stored) {
    case Stored::u8:
    case Stored::i8:
      return 1;
    case Stored::u16:
    case Stored::i16:
      return 2;
    case Stored::i32:
      return 4;
    case Stored::i64:
      return 8;
  }
  return 0;
}

SegmentTokens::SegmentTokens(std::vector<MappedFile> files, std::vector<Segment> segments,
                             std::int64_t vocabulary)
    : files_(std::move(files)),
      segments_(std::move(segments)),
      vocabulary_(vocabulary),
      fingerprint_(fnv_start) {
  begins_.reserve(segments_.size());
  for (const auto& segment : segments_) {
    begins_.push_back(size_);
    size_ += segment.tokens;
    const auto name = std::filesystem::path(files_.at(segment.file).path()).filename().string();
    fingerprint_ = hash(fingerprint_, name.data(), name.size());
    fingerprint_ = hash(fingerprint_, &segment.tokens, sizeof segment.tokens);
  }
  if (size_ < 1) {
    throw Error(ExitCode::file, fmt::format("{}: holds no token",
                                            files_.empty() ? "the data" : files_.front().path()));
  }
}

void SegmentTokens::copy(std::int64_t begin, std::span<std::int32_t> out) const {
  // The segment that holds `begin`: the last one that starts at or before it.
  auto index = static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), begin) -
                                        begins_.begin() - 1);
  std::size_t done = 0;
  for (; done < out.size(); ++index) {
    const Segment& segment = segments_.at(index);
    const std::int64_t inside = begin + static_cast<std::int64_t>(done) - begins_[index];
    const auto n = static_cast<std::size_t>(
        std::min(segment.tokens - inside, static_cast<std::int64_t>(out.size() - done)));
    const Origin origin{files_[segment.file],
                        segment.offset_bytes + inside * width_bytes(segment.stored), vocabulary_};
    widen(segment.stored, origin, out.subspan(done, n));
    done += n;
  }
}

}  // namespace adaptra::data
