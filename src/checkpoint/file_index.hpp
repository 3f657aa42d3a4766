#pragma once
// What lies where in a checkpoint file. The first 4096 bytes (HDF5's user block) are ours and say
// whether the file is whole, before HDF5 ever looks at it: HDF5 trusts the bytes it reads.

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/raw_file.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace adaptra::checkpoint {

struct TensorEntry {
  std::string group, name;
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  ///< of its first byte in the file
  std::uint64_t bytes = 0;
  std::uint32_t sum = 0;  ///< CRC-32 of its bytes

  std::string full_name() const { return group + "/" + name; }
};

struct FileIndex {
  std::vector<TensorEntry> tensors;
  RunState state;
  std::uint64_t file_bytes = 0;
  std::uint64_t table_offset = 0;  ///< of the dataset /extents
  const TensorEntry* find(const std::string& group, const std::string& name) const;
};

/// Makes the file with all its structure and closes it; the tensors' bytes are still to be written.
/// Completes offsets and bytes in `tensors` (sorted by place then).
FileIndex lay_out(const std::filesystem::path& file, std::vector<TensorEntry> tensors,
                  const RunState& state);

/// Writes the table of checksums and the user block, after which the file counts as complete.
void seal(const RawFile& file, const FileIndex& index);

/// Reads and checks everything but the bytes of the tensors. Error{file} says what is wrong.
FileIndex read_index(const std::filesystem::path& file);

/// Error{file} naming the tensor unless its bytes have their checksum.
void check_tensor(const RawFile& file, const std::filesystem::path& path,
                  const TensorEntry& tensor);

/// To and from text, to send it to other ranks.
std::string to_text(const FileIndex& index);
FileIndex from_text(const std::string& text);

}  // namespace adaptra::checkpoint
