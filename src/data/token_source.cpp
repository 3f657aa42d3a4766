#include "data/token_source.hpp"

#include "core/error.hpp"
#include "data/mapped_file.hpp"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>

namespace adaptra::data {
namespace fs = std::filesystem;

namespace {

bool hidden(const fs::path& path) {
  const auto name = path.filename().string();
  return !name.empty() && name[0] == '.';
}

std::uint64_t hash(std::uint64_t seed, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);  // FNV-1a
  for (std::size_t i = 0; i < size; ++i) seed = (seed ^ bytes[i]) * 0x100000001b3ULL;
  return seed;
}

/// Tokens of fixed width in several mapped files, one after the other.
template <typename Stored>
class FileTokens final : public TokenSource {
 public:
  FileTokens(std::vector<MappedFile> files, std::int64_t vocabulary)
      : files_(std::move(files)), vocabulary_(vocabulary) {
    for (const auto& file : files_) {
      const auto tokens = static_cast<std::int64_t>(file.bytes().size() / sizeof(Stored));
      begins_.push_back(size_);
      size_ += tokens;
      const std::string name = fs::path(file.path()).filename().string();
      fingerprint_ = hash(fingerprint_, name.data(), name.size());
      fingerprint_ = hash(fingerprint_, &tokens, sizeof tokens);
    }
  }

  std::int64_t size() const override { return size_; }
  std::uint64_t fingerprint() const override { return fingerprint_; }

  void copy(std::int64_t begin, std::span<std::int32_t> out) const override {
    // The file that holds `begin`: the last one that starts at or before it.
    auto file = static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), begin) -
                                         begins_.begin() - 1);
    std::size_t done = 0;
    while (done < out.size()) {
      const auto bytes = files_.at(file).bytes();
      const std::int64_t inside = begin + static_cast<std::int64_t>(done) - begins_[file];
      const std::int64_t there = static_cast<std::int64_t>(bytes.size() / sizeof(Stored)) - inside;
      const auto n = std::min<std::int64_t>(there, static_cast<std::int64_t>(out.size() - done));
      for (std::int64_t i = 0; i < n; ++i) {
        Stored token;
        std::memcpy(&token, bytes.data() + (inside + i) * static_cast<std::int64_t>(sizeof token),
                    sizeof token);
        if (std::int64_t{token} >= vocabulary_) bad_id(files_[file], inside + i, token);
        out[done + static_cast<std::size_t>(i)] = token;
      }
      done += static_cast<std::size_t>(n);
      ++file;
    }
  }

 private:
  [[noreturn]] void bad_id(const MappedFile& file, std::int64_t index, Stored token) const {
    throw Error(
        ExitCode::file,
        fmt::format("{}: token {} at byte {} is not below model.vocabulary = {}: the data "
                    "were made with another vocabulary, or the file is no {}-bit token file",
                    file.path(), token, index * static_cast<std::int64_t>(sizeof(Stored)),
                    vocabulary_, 8 * sizeof(Stored)));
  }

  std::vector<MappedFile> files_;
  std::int64_t vocabulary_;
  std::vector<std::int64_t> begins_;
  std::int64_t size_ = 0;
  std::uint64_t fingerprint_ = 0xcbf29ce484222325ULL;
};

bool looks_binary(std::span<const std::byte> bytes) {
  const auto probe = bytes.first(std::min<std::size_t>(bytes.size(), 4096));
  return std::find(probe.begin(), probe.end(), std::byte{0}) != probe.end();
}

std::unique_ptr<TokenSource> open_text(const std::vector<std::string>& paths,
                                       std::int64_t vocabulary) {
  std::vector<MappedFile> files;
  for (const auto& path : expand_paths(paths)) {
    MappedFile file(path);
    if (file.bytes().empty() || looks_binary(file.bytes())) continue;
    files.push_back(std::move(file));
  }
  if (files.empty()) {
    throw Error(ExitCode::file, fmt::format("{}: no text in there (only empty or binary files)",
                                            fmt::join(paths, ", ")));
  }
  return std::make_unique<FileTokens<std::uint8_t>>(std::move(files), vocabulary);
}

// Files of the llm.c family and Megatron share the suffix .bin with nanoGPT's; without this check
// they would train on garbage.
void refuse_other_formats(const MappedFile& file) {
  struct Known {
    std::int32_t magic;
    const char* what;
  };
  static constexpr Known known[] = {
      {20240520, "an llm.c token shard"},     {20240801, "an llm.c shard of Llama-3 tokens"},
      {20240522, "an llm.c evaluation file"}, {20240326, "an llm.c model"},
      {20240327, "an llm.c debug state"},     {20240527, "an llm.c optimizer state"},
      {20240328, "an llm.c tokenizer"},
  };
  std::int32_t magic = 0;
  if (file.bytes().size() >= sizeof magic) std::memcpy(&magic, file.bytes().data(), sizeof magic);
  for (const auto& entry : known) {
    if (magic == entry.magic) {
      throw Error(ExitCode::file,
                  fmt::format("{}: is {} (magic {} at byte 0), not headerless nanoGPT tokens",
                              file.path(), entry.what, magic));
    }
  }
  const auto index = fs::path(file.path()).replace_extension(".idx");
  if (fs::exists(index)) {
    throw Error(ExitCode::file,
                fmt::format("{}: {} beside it says that this is a Megatron dataset, "
                            "not headerless nanoGPT tokens",
                            file.path(), index.string()));
  }
}

std::unique_ptr<TokenSource> open_nanogpt(const std::vector<std::string>& paths,
                                          std::int64_t vocabulary) {
  std::vector<MappedFile> files;
  for (const auto& path : expand_paths(paths)) {
    MappedFile file(path);
    if (file.bytes().empty()) throw Error(ExitCode::file, path + ": is empty");
    if (file.bytes().size() % 2 != 0) {
      throw Error(ExitCode::file,
                  fmt::format("{}: {} bytes is no whole number of 16-bit tokens: truncated, or not "
                              "nanoGPT's format",
                              path, file.bytes().size()));
    }
    refuse_other_formats(file);
    files.push_back(std::move(file));
  }
  return std::make_unique<FileTokens<std::uint16_t>>(std::move(files), vocabulary);
}

}  // namespace

std::vector<std::string> expand_paths(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const auto& path : paths) {
    std::vector<std::string> named;
    if (fs::exists(path)) {
      named.push_back(path);
    } else {
      glob_t matches{};
      if (glob(path.c_str(), 0, nullptr, &matches) == 0) {
        named.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);  // sorted
      }
      globfree(&matches);
    }
    if (named.empty()) {
      throw Error(ExitCode::file,
                  fmt::format("{}: no such file, folder or match (paths are relative to {})", path,
                              fs::current_path().string()));
    }
    for (const auto& name : named) {
      if (!fs::is_directory(name)) {
        files.push_back(name);
        continue;
      }
      std::vector<std::string> inside;
      for (auto it = fs::recursive_directory_iterator(
               name, fs::directory_options::skip_permission_denied);
           it != fs::recursive_directory_iterator(); ++it) {
        if (hidden(it->path())) {
          if (it->is_directory()) it.disable_recursion_pending();
        } else if (it->is_regular_file()) {
          inside.push_back(it->path().string());
        }
      }
      std::sort(inside.begin(), inside.end());
      files.insert(files.end(), inside.begin(), inside.end());
    }
  }
  return files;
}

std::unique_ptr<TokenSource> open_tokens(const std::string& kind,
                                         const std::vector<std::string>& paths,
                                         std::int64_t vocabulary) {
  return kind == "text" ? open_text(paths, vocabulary) : open_nanogpt(paths, vocabulary);
}

}  // namespace adaptra::data
