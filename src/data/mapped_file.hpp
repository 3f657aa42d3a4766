#pragma once
// A file mapped into memory, read-only: never copied whole, 64-bit sizes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace adaptra::data {

class MappedFile {
 public:
  /// Maps the file. Throws Error{file} that names it; an empty file maps to an empty span.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace adaptra::data
