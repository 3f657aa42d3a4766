#pragma once
// Files as bytes: what HDF5 leaves to us. Calls move any number of bytes (in pieces, as the kernel
// takes less than 2 GiB at once), throw Error{file} with the path and the system's reason, and may
// be made from any thread.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace adaptra::checkpoint {

class RawFile {
 public:
  enum class Access { read, write };  ///< write: an existing file, for reading too
  RawFile(std::filesystem::path path, Access access);
  RawFile(RawFile&& other) noexcept;
  RawFile& operator=(RawFile&&) = delete;
  ~RawFile();

  void write(std::span<const std::byte> bytes, std::uint64_t offset) const;
  /// Error{file} too where the file ends early.
  void read(std::span<std::byte> bytes, std::uint64_t offset) const;
  std::uint64_t size() const;
  /// Takes the space on the disk now, where the file system can.
  void reserve(std::uint64_t bytes) const;
  /// On the disk when it returns.
  void sync() const;
  /// Drops the pages that are clean from the cache, so that the next read comes from the disk.
  void forget_cache() const;
  /// Closes; the last moment at which some file systems tell of a failed write.
  void close();

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

/// CRC-32 of zlib, continued from `sum` (0 at first).
std::uint32_t crc(std::uint32_t sum, std::span<const std::byte> bytes);
/// Of a range of a file.
std::uint32_t crc(std::uint32_t sum, const RawFile& file, std::uint64_t offset,
                  std::uint64_t bytes);

/// Renames, and makes the new name last through a loss of power.
void rename_for_good(const std::filesystem::path& from, const std::filesystem::path& to);

/// Bytes that a user may still write where `folder` is.
std::uint64_t free_bytes(const std::filesystem::path& folder);

}  // namespace adaptra::checkpoint
