#include "data/token_source.hpp"

#include "core/error.hpp"
#include "data/formats.hpp"
#include "data/mapped_file.hpp"
#include "data/segment_tokens.hpp"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>

namespace adaptra::data {
namespace fs = std::filesystem;

namespace {

bool hidden(const fs::path& path) {
  const auto name = path.filename().string();
  return !name.empty() && name[0] == '.';
}

template <typename Read>
std::unique_ptr<TokenSource> join(std::vector<MappedFile> files, Read read,
                                  std::int64_t vocabulary) {
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < files.size(); ++i) segments.push_back(read(files[i], i));
  return std::make_unique<SegmentTokens>(std::move(files), std::move(segments), vocabulary);
}

std::vector<MappedFile> map_all(const std::vector<std::string>& paths) {
  std::vector<MappedFile> files;
  for (const auto& path : paths) files.emplace_back(path);
  return files;
}

std::unique_ptr<TokenSource> open_megatron(const std::vector<std::string>& paths,
                                           std::int64_t vocabulary) {
  std::vector<MappedFile> files;
  std::vector<Segment> segments;
  for (const auto& path : megatron_files(paths)) {
    const MappedFile index(path);
    files.emplace_back(fs::path(path).replace_extension(".bin").string());
    const auto more = read_megatron(index, files.back(), files.size() - 1);
    segments.insert(segments.end(), more.begin(), more.end());
  }
  return std::make_unique<SegmentTokens>(std::move(files), std::move(segments), vocabulary);
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
  if (kind == "text") return join(text_files(paths), read_text, vocabulary);
  if (kind == "nanogpt") return join(map_all(binary_files(paths)), read_nanogpt, vocabulary);
  if (kind == "llmc") return join(map_all(binary_files(paths)), read_llmc, vocabulary);
  if (kind == "megatron") return open_megatron(paths, vocabulary);
  throw Error(ExitCode::usage, fmt::format("data of kind {}: no such kind; text, nanogpt, llmc and "
                                           "megatron are known",
                                           kind));
}

}  // namespace adaptra::data
