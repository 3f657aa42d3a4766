#pragma once
// What must hold whatever bytes a token file has: it is refused with Error{file}, or every token of
// it can be read and is a valid id. Used by the fuzz target and by the mutation test.

#include "core/error.hpp"
#include "data/token_source.hpp"
#include "support/temporary_folder.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace adaptra::testing_support {

enum class ReadOutcome { accepted, refused };

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "token reader: %s\n", what);
  std::abort();
}

/// A file of the kind "nanogpt" or "llmc", or "megatron" with its index beside it.
inline ReadOutcome read_tokens(const TemporaryFolder& folder, const std::string& kind,
                               const std::string& bytes, const std::string& index) {
  constexpr std::int64_t vocabulary = 50257;
  // New files each time: some file systems write to the disk when a file is truncated and
  // rewritten.
  std::filesystem::remove_all(folder.path() / kind);
  const std::string file = folder.write(kind + "/file.bin", bytes);
  if (kind == "megatron") folder.write(kind + "/file.idx", index);
  try {
    const auto source = data::open_tokens(kind, {file}, vocabulary);
    require(source->size() > 0, "accepted a file without tokens");
    require(source->size() <= static_cast<std::int64_t>(bytes.size()), "more tokens than bytes");
    std::vector<std::int32_t> all(static_cast<std::size_t>(source->size()));
    source->copy(0, all);
    for (const auto token : all) require(token >= 0 && token < vocabulary, "invalid id");
    return ReadOutcome::accepted;
  } catch (const Error& error) {
    require(error.code() == ExitCode::file, "an error of another kind");
    require(std::string(error.what()).find("file.") != std::string::npos, "no file is named");
    return ReadOutcome::refused;
  }
}

}  // namespace adaptra::testing_support
