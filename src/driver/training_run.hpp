#pragma once
// The training run, from a checked deck to the last step: set-up, then the loop
//   ops of the plan -> tied embedding -> replicas -> loss and norm agreed -> optimizer -> log.
// Collective: every rank of the session calls it.

#include "core/error.hpp"
#include "core/log.hpp"
#include "deck/deck.hpp"
#include "driver/run_folder.hpp"
#include "mpi/session.hpp"

#include <string>

namespace adaptra::driver {

struct RunOptions {
  ExistingRun existing = ExistingRun::refuse;
  std::string resume;     ///< "auto", a checkpoint file, or "": from the start
  double max_time_s = 0;  ///< stop with a checkpoint before this much time has passed; 0: no limit
};

/// Runs the deck. Set-up errors are agreed: they are thrown on all ranks (mpi::ElsewhereError on
/// those that are not to blame). An error inside a step ends all ranks: post-mortem, one line,
/// abort. Returns done, numerics, stopped_early or stopped_by_request, the same on all ranks.
ExitCode run_training(const deck::Deck& deck, const RunOptions& options, mpi::Session& session);

}  // namespace adaptra::driver
