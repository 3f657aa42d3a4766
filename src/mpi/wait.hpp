#pragma once
// Waiting with a deadline. MPI's blocking calls wait for ever when a peer is lost, so every wait of
// Adaptra is a non-blocking call, polled here: first eagerly, then with short sleeps, so that ranks
// may share a core. Main thread only (MPI_THREAD_FUNNELED).

#include "core/error.hpp"

#include <mpi.h>

#include <chrono>
#include <functional>
#include <span>
#include <string>

namespace adaptra::mpi {

/// A point in time after which waiting is an error.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  static Deadline after_s(double seconds);
  bool passed() const { return Clock::now() >= at_; }
  double limit_s() const { return limit_s_; }

 private:
  Deadline(Clock::time_point at, double limit_s) : at_(at), limit_s_(limit_s) {}
  Clock::time_point at_;
  double limit_s_;
};

/// Spaces out polls: yields at first, then sleeps 50 us. One object per wait.
class Backoff {
 public:
  void pause();

 private:
  int polls_ = 0;
};

/// Throws Error{internal} with MPI's own text unless `code` is MPI_SUCCESS; `call` names the call.
void check(int code, const char* call);

/// Completes all requests, or gives Error{peer_lost}: "<what> did not end within <limit> s". After
/// an error the requests are still pending and the run can only be aborted.
Status wait_all(std::span<MPI_Request> requests, const Deadline& deadline, const std::string& what);

}  // namespace adaptra::mpi
