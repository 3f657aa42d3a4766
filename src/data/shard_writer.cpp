#include "data/shard_writer.hpp"

#include "core/error.hpp"
#include "data/formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace adaptra::data {
namespace fs = std::filesystem;

namespace {

constexpr const char* unfinished = ".partial";

std::vector<std::string> existing_shards(const std::string& prefix) {
  const fs::path path(prefix);
  const auto folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<std::string> found;
  if (!fs::is_directory(folder)) return found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    for (const char* split : {"_train_", "_val_"}) {
      const auto start = path.filename().string() + split;
      const bool fits = name.size() == start.size() + 10 && name.rfind(start, 0) == 0 &&
                        name.substr(name.size() - 4) == ".bin" &&
                        std::all_of(name.begin() + static_cast<long>(start.size()), name.end() - 4,
                                    [](char c) { return c >= '0' && c <= '9'; });
      if (fits) found.push_back(entry.path().string());
    }
  }
  return found;
}

}  // namespace

ShardWriter::ShardWriter(std::string prefix, std::int64_t shard_tokens,
                         std::int64_t validation_tokens, ExistingShards existing)
    : prefix_(std::move(prefix)),
      shard_tokens_(shard_tokens),
      validation_tokens_(validation_tokens) {
  for (const auto& path : existing_shards(prefix_)) {
    if (existing == ExistingShards::refuse) {
      throw Error(ExitCode::file, path +
                                      ": exists already; choose another prefix, or replace all "
                                      "shards of this one with --overwrite");
    }
    fs::remove(path);
  }
  if (const auto folder = fs::path(prefix_).parent_path(); !folder.empty()) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) {
      throw Error(ExitCode::file,
                  fmt::format("{}: cannot be made: {}", folder.string(), error.message()));
    }
  }
}

ShardWriter::~ShardWriter() {
  if (!file_) return;
  file_.reset();
  std::error_code ignored;
  fs::remove(path_ + unfinished, ignored);
}

void ShardWriter::failed(const char* what) const {
  const int code = errno;
  throw Error(ExitCode::file,
              fmt::format("{}{}: cannot be {}: {}", path_, unfinished, what, std::strerror(code)));
}

void ShardWriter::write(const void* data, std::size_t bytes) {
  if (std::fwrite(data, 1, bytes, file_.get()) != bytes) failed("written");
}

void ShardWriter::open() {
  const bool validation = validation_tokens_ > 0 && shards_.empty();
  const auto number = shards_.size() + (validation_tokens_ > 0 ? 0 : 1);
  path_ = fmt::format("{}_{}_{:06}.bin", prefix_, validation ? "val" : "train", number);
  file_.reset(std::fopen((path_ + unfinished).c_str(), "wb"));
  if (!file_) failed("opened");
  room_ = validation ? validation_tokens_ : shard_tokens_;
  shards_.push_back({path_, 0});
  const std::array<char, llmc::header_bytes> blank{};
  write(blank.data(), blank.size());  // finish() fills it in
}

void ShardWriter::finish() {
  const std::array<std::int32_t, 3> header{llmc::magic, llmc::version,
                                           static_cast<std::int32_t>(shards_.back().tokens)};
  if (std::fseek(file_.get(), 0, SEEK_SET) != 0) failed("written");
  write(header.data(), sizeof header);
  if (std::fclose(file_.release()) != 0) failed("written");
  std::error_code error;
  fs::rename(path_ + unfinished, path_, error);
  if (error) throw Error(ExitCode::file, path_ + ": cannot be named so: " + error.message());
}

void ShardWriter::add(std::span<const std::int32_t> tokens) {
  std::array<std::uint16_t, 4096> narrow;
  while (!tokens.empty()) {
    if (!file_) open();
    const auto n = static_cast<std::size_t>(
        std::min<std::int64_t>({room_, static_cast<std::int64_t>(tokens.size()),
                                static_cast<std::int64_t>(narrow.size())}));
    std::transform(tokens.begin(), tokens.begin() + static_cast<long>(n), narrow.begin(),
                   [](std::int32_t id) { return static_cast<std::uint16_t>(id); });
    write(narrow.data(), n * sizeof narrow[0]);
    tokens = tokens.subspan(n);
    shards_.back().tokens += static_cast<std::int64_t>(n);
    room_ -= static_cast<std::int64_t>(n);
    if (room_ == 0) finish();
  }
}

std::vector<Shard> ShardWriter::close() {
  if (file_) finish();
  return shards_;
}

}  // namespace adaptra::data
