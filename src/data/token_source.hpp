#pragma once
// Where tokens come from: one long row of token ids, whatever files hold it. Local; const after
// construction, so any thread may read.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace adaptra::data {

class TokenSource {
 public:
  virtual ~TokenSource() = default;

  /// Tokens in all.
  virtual std::int64_t size() const = 0;

  /// Copies tokens [begin, begin + out.size()), which must lie inside. Throws Error{file} naming
  /// file and byte offset where an id is not below the vocabulary.
  virtual void copy(std::int64_t begin, std::span<std::int32_t> out) const = 0;

  /// Changes with the files' names, sizes and order: a checkpoint recognises its data by it.
  virtual std::uint64_t fingerprint() const = 0;
};

/// Opens the files, folders and globs named, of the kind "text" (bytes; folders are walked, hidden
/// and binary files skipped), "nanogpt" (headerless little-endian u16), "llmc" (shards with a
/// header) or "megatron" (pairs of .idx and .bin, named by either or by their prefix); in folders
/// only files with the right ending count. Ids must be below `vocabulary`. Throws Error{file}:
/// missing, empty, wrong size, or a file that belongs to another format.
std::unique_ptr<TokenSource> open_tokens(const std::string& kind,
                                         const std::vector<std::string>& paths,
                                         std::int64_t vocabulary);

/// The files that the paths mean: globs expanded, folders walked (sorted by name). Throws
/// Error{file} where a path means nothing.
std::vector<std::string> expand_paths(const std::vector<std::string>& paths);

}  // namespace adaptra::data
