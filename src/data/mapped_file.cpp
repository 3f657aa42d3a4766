#include "data/mapped_file.hpp"

#include "core/error.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace adaptra::data {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info {};
  if (fd < 0 || fstat(fd, &info) != 0) {
    const int code = errno;
    if (fd >= 0) close(fd);
    throw Error(ExitCode::file, fmt::format("{}: cannot be read: {}", path, std::strerror(code)));
  }
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ > 0) {
    void* memory = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
      const int code = errno;
      close(fd);
      throw Error(ExitCode::file,
                  fmt::format("{}: cannot be mapped: {}", path, std::strerror(code)));
    }
    data_ = static_cast<const std::byte*>(memory);
  }
  close(fd);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace adaptra::data
