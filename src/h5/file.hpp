#pragma once
// HDF5 files, as far as Adaptra needs them: groups, scalar texts and numbers, and arrays of 32-bit
// floats and 64-bit words whose bytes lie contiguously at an offset that is fixed before the first
// of them is written, so that other threads and ranks can write them with plain pwrite().
//
// Paths inside a file are absolute ("/state/step"); groups on the way are made as needed. HDF5 is
// used by one thread at a time per process (Debian's parallel build is not thread-safe): every call
// here takes one lock. All calls are local unless they say otherwise, and throw Error{file} with
// the innermost message of HDF5.

#include <mpi.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace adaptra::h5 {

/// Where an array lies in its file.
struct Place {
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  ///< from the start of the file, user block included
  std::uint64_t bytes = 0;
};

/// How the ranks of a parallel file write an array: each on its own, or all in one call.
enum class Transfer { independent, collective };

/// An HDF5 identifier and the call that closes it. Move-only.
class Handle {
 public:
  using Close = int (*)(std::int64_t);
  Handle() = default;
  Handle(std::int64_t id, Close how) : id_(id), close_(how) {}
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  ~Handle();
  std::int64_t id() const { return id_; }
  bool valid() const { return id_ >= 0; }
  /// Closes now; gives false where HDF5 could not.
  bool close();

 private:
  std::int64_t id_ = -1;
  Close close_ = nullptr;
};

class File {
 public:
  /// Makes a file, replacing an old one, whose first `user_block_bytes` (0, or a power of two from
  /// 4096 on) are left to the caller.
  static File create(const std::filesystem::path& path, std::uint64_t user_block_bytes);
  /// Opens for reading.
  static File open(const std::filesystem::path& path);
  /// Opens for writing by all ranks of `comm` through MPI-IO. Collective, without a deadline: the
  /// caller watches over it.
  static File open_parallel(const std::filesystem::path& path, MPI_Comm comm);

  void make_group(const std::string& path);
  void write_text(const std::string& path, std::string_view text);  ///< no NUL inside
  void write_integer(const std::string& path, std::int64_t value);
  void write_number(const std::string& path, double value);

  /// Arrays whose bytes are allocated but not written. Gives their place.
  Place reserve_floats(const std::string& path, std::span<const std::int64_t> shape);
  Place reserve_words(const std::string& path, std::span<const std::int64_t> shape);

  std::string read_text(const std::string& path) const;
  std::int64_t read_integer(const std::string& path) const;
  double read_number(const std::string& path) const;
  Place place(const std::string& path) const;
  bool has(const std::string& path) const;
  /// Names in a group, sorted.
  std::vector<std::string> list(const std::string& group) const;

  /// Writes rows [first_row, first_row + rows) of an array of floats; with `collective` all ranks
  /// call it for the same array, those with nothing to write with rows = 0.
  void write_rows(const std::string& path, std::int64_t first_row, std::int64_t rows,
                  std::span<const float> values, Transfer transfer);

  /// Closes, with every error that still can happen. Collective for parallel files.
  void close();

 private:
  File(std::filesystem::path path, Handle file) : path_(std::move(path)), file_(std::move(file)) {}
  Place reserve(const std::string& path, std::span<const std::int64_t> shape, std::int64_t type);
  void write_scalar(const std::string& path, std::int64_t type, const void* value);
  void read_scalar(const std::string& path, std::int64_t type, void* value) const;
  Handle open_array(const std::string& path) const;

  std::filesystem::path path_;
  Handle file_;
};

/// "1.10.8".
std::string library_version();

}  // namespace adaptra::h5
