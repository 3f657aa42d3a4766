#pragma once
// Checkpoints: logical tensors and the state of a run in one HDF5 file, independent of how the
// ranks share the tensors (docs/checkpoint_format.md). A file under its final name
// (step_00000100.h5) is complete: it was written under another name, brought to the disk, read back
// and only then renamed. Every byte of it is under a checksum. Writer (writer.hpp) writes them.
//
// Main thread. All failures are Error{file}, on all ranks alike (mpi::ElsewhereError where another
// rank is to blame).

#include "mpi/communicator.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace adaptra::checkpoint {

/// A whole tensor that this rank holds, row-major, without padding. Other ranks may hold the same
/// one (replicas): it is written once.
struct TensorPart {
  std::string group;                ///< "weights", "adam_m", "adam_v"
  std::string name;                 ///< as in the Hugging Face files: "h.3.attn.c_attn.weight"
  std::vector<std::int64_t> shape;  ///< at least one element
  std::span<float> data;
};

/// What else a run needs to go on. Keys are free; those that adaptra-checkpoint knows are
/// in docs/checkpoint_format.md. Texts hold no NUL.
struct RunState {
  std::int64_t step = 0;
  std::map<std::string, std::int64_t> integers;
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> texts;
  friend bool operator==(const RunState&, const RunState&) = default;
};

/// What load() gives beside the tensors.
struct Loaded {
  RunState state;
  std::vector<std::string>
      absent_groups;  ///< asked for, but the file has none of it: data as it was
};

/// Reads this rank's parts from a checkpoint of any layout and checks their checksums. Error{file}
/// naming the tensor where one is missing, has another shape or is damaged. Collective.
Loaded load(const mpi::Communicator& comm, const std::filesystem::path& file,
            std::span<const TensorPart> parts);

/// The state alone. Local.
RunState read_state(const std::filesystem::path& file);

/// What find_latest() found.
struct Latest {
  std::optional<std::filesystem::path> file;
  std::int64_t step = 0;
  std::vector<std::string> skipped;  ///< one line for each newer file that is bad, saying why
};

/// The newest good checkpoint of a folder, every byte checked, the work shared by the ranks. A
/// folder that does not exist holds none. Collective.
Latest find_latest(const mpi::Communicator& comm, const std::filesystem::path& folder);

/// What is wrong with a file, one line each, naming the tensor; empty where it is good. Local.
std::vector<std::string> verify(const std::filesystem::path& file);

}  // namespace adaptra::checkpoint
