#pragma once
// Writes checkpoints, at the border of a step or beside the steps that follow.
//
// start() lays the file out under a temporary name, copies this rank's tensors and gives the copy
// to a thread that writes it with plain pwrite() at the tensors' offsets; the step waits for the
// copy only. A later poll() or finish(), at a border, completes the file when all ranks have
// written: checksums, fsync, check, rename, pointer, deletion of old files. Replicas share the
// writing of the tensors that they all hold, by bytes. With Timing::blocking nothing is copied;
// with the HDF5 methods the ranks write through parallel HDF5 instead, always blocking.
//
// Collective unless noted; main thread. Errors are Error{file} on all ranks; the save is then given
// up and the older checkpoints are untouched. Waits have a deadline (Error{peer_lost}).

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/folder.hpp"

#include <functional>
#include <memory>

namespace adaptra::checkpoint {

enum class Method { posix, hdf5_independent, hdf5_collective };
enum class Timing { background, blocking };
enum class ReadBack { yes, no };  ///< after the fsync each rank reads what it wrote again

struct Settings {
  Method method = Method::posix;
  Timing timing = Timing::background;
  ReadBack read_back = ReadBack::yes;
  Retention retention;
  double deadline_s = 1800;  ///< for the slowest rank's writing
  /// Called from a watching thread where parallel HDF5, which cannot be interrupted, passes the
  /// deadline; it must end the process. By default that is a line on standard error and exit
  /// code 4.
  std::function<void(const std::string& line)> on_stuck;
};

/// A save that is complete.
struct Report {
  std::filesystem::path file;
  std::int64_t step = 0;
  std::uint64_t bytes = 0;
  double waited_s = 0;   ///< what the steps waited for: layout, copy, completion
  double written_s = 0;  ///< the slowest rank's writing and fsync, without reading back
  double gb_per_s() const { return written_s > 0 ? double(bytes) / written_s * 1e-9 : 0; }
  std::vector<std::string> tidied;  ///< old files deleted or set aside, one line each
};

class Writer {
 public:
  /// Local.
  Writer(const mpi::Communicator& comm, std::filesystem::path folder, Settings settings);
  /// Stops a running save within one piece (16 MiB) of writing. Local.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// Begins a save; completes one still running first, whose report is lost to the caller unless
  /// it called finish(). On return the parts may change again.
  void start(std::int64_t step, std::span<const TensorPart> parts, const RunState& state);

  /// True between start() and the report. Local, the same on all ranks.
  bool running() const { return save_ != nullptr; }

  /// Completes the save if every rank has written; else gives nothing at once.
  std::optional<Report> poll();

  /// Waits for the save and completes it; nothing where none is running.
  std::optional<Report> finish();

 private:
  struct Save;
  Report complete();
  void write_by_hdf5();
  [[noreturn]] void give_up();

  const mpi::Communicator& comm_;
  std::filesystem::path folder_;
  Settings settings_;
  std::unique_ptr<Save> save_;
  std::vector<float> copy_;  // kept from save to save
};

/// start() and finish() in one.
Report save(const mpi::Communicator& comm, const std::filesystem::path& folder, std::int64_t step,
            std::span<const TensorPart> parts, const RunState& state, const Settings& settings);

}  // namespace adaptra::checkpoint
