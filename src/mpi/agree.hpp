#pragma once
// All ranks succeed together or fail together: no rank may leave a collective phase alone.

#include "core/error.hpp"
#include "mpi/communicator.hpp"

#include <functional>
#include <string>

namespace adaptra::mpi {

/// The error that ranks get when another rank failed: the culprit prints, the others leave silently
/// with the same exit code.
class ElsewhereError : public Error {
 public:
  ElsewhereError(ExitCode code, int culprit, const std::string& what)
      : Error(code, what), culprit_(culprit) {}
  int culprit() const { return culprit_; }

 private:
  int culprit_;
};

/// Runs `work` on every rank. Where it threw on any rank, all ranks throw: the lowest failing rank
/// its own error, the others ElsewhereError with the same code. Collective. `work` itself may be
/// collective only if it cannot fail on a part of the ranks before it communicates.
void agree(const Communicator& comm, const std::function<void()>& work);

}  // namespace adaptra::mpi
