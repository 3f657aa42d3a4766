#pragma once
// The checkpoints of a run: what goes into them, when they are written, and how a run goes on from
// one. Collective; main thread.

#include "checkpoint/writer.hpp"
#include "core/log.hpp"
#include "deck/deck.hpp"
#include "model/stage_model.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace adaptra::driver {

/// Where a run goes on.
struct ResumePoint {
  std::int64_t step = 0;     ///< last step done; 0: from the start
  std::int64_t updates = 0;  ///< of the optimizer: fewer than steps where steps were skipped
};

class Checkpoints {
 public:
  /// All references must outlive this object.
  Checkpoints(const mpi::Communicator& world, const deck::Deck& deck, model::StageModel& model,
              const Log& log);

  /// Loads weights and moments: `from` is "auto" (the newest good checkpoint of the run's folder;
  /// none: from the start) or a file. `fingerprint` is that of the training data. Says what it
  /// took, what it passed over and which keys of the deck differ. Throws Error{file} where an
  /// explicit file is bad, Error{usage} where the model's shape is another.
  ResumePoint resume(const std::string& from, std::uint64_t fingerprint);

  /// At the border behind `at.step`: starts a save that is due, completes one that has been
  /// written. A save that fails is reported and given up; the older ones are untouched.
  void at_border(const ResumePoint& at, std::uint64_t fingerprint, const std::string& plan);

  /// Saves now and waits. Throws Error{file}. Does nothing where this step is saved already.
  void save(const ResumePoint& at, std::uint64_t fingerprint, const std::string& plan);

 private:
  std::vector<checkpoint::TensorPart> parts();
  checkpoint::RunState state(const ResumePoint& at, std::uint64_t fingerprint,
                             const std::string& plan) const;
  void compare_decks(const checkpoint::RunState& saved, const std::string& file) const;
  void start(const ResumePoint& at, std::uint64_t fingerprint, const std::string& plan);
  void report(const checkpoint::Report& done);

  mpi::Communicator comm_;
  const deck::Deck& deck_;
  model::StageModel& model_;
  const Log& log_;
  std::filesystem::path folder_;
  std::unique_ptr<checkpoint::Writer> writer_;
  std::vector<float> host_weights_, host_moment1_, host_moment2_;  // used where the device is apart
  std::int64_t saved_step_ = -1;
};

}  // namespace adaptra::driver
