#pragma once
// What the ranks tell each other at the end of a step, in one gathering: losses, squares of the
// gradients, memory, requests to stop. Every rank combines the parts in the same order, so all
// decide alike.

#include "driver/signals.hpp"
#include "mpi/communicator.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace adaptra::driver {

/// One rank's part.
struct RankSummary {
  int replica = 0;
  StopRequest stop = StopRequest::none;
  bool save = false;                            ///< a checkpoint is asked for
  std::int64_t memory_bytes = 0;                ///< resident
  double loss_sum = 0;                          ///< over this replica's tokens; last stage only
  std::vector<std::pair<int, double>> squares;  ///< parameter index, sum of squares of its gradient
};

/// The step, combined.
struct StepSummary {
  double loss = 0;  ///< mean over all predicted tokens of the global batch
  double norm = 0;  ///< global gradient norm
  StopRequest stop = StopRequest::none;
  bool save = false;
  std::int64_t memory_bytes = 0;  ///< of the rank that holds most
  int first_bad_parameter = -1;   ///< lowest index with a gradient that is not finite
  bool finite = true;
};

/// Collective over all ranks. The squares count once: those of replica 0, in model order.
StepSummary agree_on_step(const mpi::Communicator& world, const RankSummary& mine,
                          std::int64_t tokens_per_step);

/// Resident memory of this process.
std::int64_t resident_bytes();

}  // namespace adaptra::driver
