#include "checkpoint/raw_file.hpp"

#include "core/error.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace adaptra::checkpoint {
namespace {

constexpr std::size_t piece_bytes = std::size_t{64} << 20;

[[noreturn]] void fail(const std::filesystem::path& path, const char* what, int code) {
  throw Error(ExitCode::file, fmt::format("{}: {}: {}", path.string(), what, std::strerror(code)));
}

}  // namespace

RawFile::RawFile(std::filesystem::path path, Access access)
    : path_(std::move(path)),
      fd_(open(path_.c_str(), (access == Access::write ? O_RDWR : O_RDONLY) | O_CLOEXEC)) {
  if (fd_ < 0) fail(path_, "cannot be opened", errno);
}

RawFile::RawFile(RawFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

RawFile::~RawFile() {
  if (fd_ >= 0) ::close(fd_);
}

void RawFile::write(std::span<const std::byte> bytes, std::uint64_t offset) const {
  while (!bytes.empty()) {
    const auto done =
        pwrite(fd_, bytes.data(), std::min(bytes.size(), piece_bytes), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail(path_, "cannot be written", done == 0 ? ENOSPC : errno);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
}

void RawFile::read(std::span<std::byte> bytes, std::uint64_t offset) const {
  while (!bytes.empty()) {
    const auto done =
        pread(fd_, bytes.data(), std::min(bytes.size(), piece_bytes), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(path_, "cannot be read", errno);
    if (done == 0) {
      throw Error(ExitCode::file,
                  fmt::format("{}: ends at byte {}, but more is expected: truncated",
                              path_.string(), offset));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
}

std::uint64_t RawFile::size() const {
  struct stat state {};
  if (fstat(fd_, &state) != 0) fail(path_, "has no size", errno);
  return static_cast<std::uint64_t>(state.st_size);
}

void RawFile::reserve(std::uint64_t bytes) const {
  if (fallocate(fd_, 0, 0, static_cast<off_t>(bytes)) == 0) return;
  // File systems that cannot reserve say so; the writes will tell whether there is room.
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR) {
    fail(path_, "has no room", errno);
  }
}

void RawFile::sync() const {
  if (fsync(fd_) != 0) fail(path_, "cannot be brought to the disk", errno);
}

void RawFile::forget_cache() const {
  posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
}

void RawFile::close() {
  if (::close(std::exchange(fd_, -1)) != 0) fail(path_, "cannot be closed", errno);
}

std::uint32_t crc(std::uint32_t sum, std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(sum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::uint32_t crc(std::uint32_t sum, const RawFile& file, std::uint64_t offset,
                  std::uint64_t bytes) {
  std::vector<std::byte> piece(std::min<std::uint64_t>(bytes, std::uint64_t{4} << 20));
  while (bytes > 0) {
    const auto part = std::span(piece).first(std::min<std::uint64_t>(bytes, piece.size()));
    file.read(part, offset);
    sum = crc(sum, part);
    offset += part.size();
    bytes -= part.size();
  }
  return sum;
}

void rename_for_good(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (rename(from.c_str(), to.c_str()) != 0) fail(to, "cannot be given its name", errno);
  const int folder = open(to.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) fail(to.parent_path(), "cannot be opened", errno);
  const int problem = fsync(folder) == 0 ? 0 : errno;
  ::close(folder);
  if (problem != 0 && problem != EINVAL) fail(to.parent_path(), "cannot be synced", problem);
}

std::uint64_t free_bytes(const std::filesystem::path& folder) {
  struct statvfs state {};
  if (statvfs(folder.c_str(), &state) != 0) fail(folder, "cannot be asked for its space", errno);
  return std::uint64_t{state.f_bavail} * state.f_frsize;
}

}  // namespace adaptra::checkpoint
