#include "mpi/wait.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <array>
#include <thread>

namespace adaptra::mpi {

Deadline Deadline::after_s(double seconds) {
  const auto span = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(std::min(seconds, 1e8)));
  return {Clock::now() + span, seconds};
}

void Backoff::pause() {
  constexpr int eager_polls = 200;
  if (++polls_ <= eager_polls) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw Error(ExitCode::internal, fmt::format("{}: {}", call, text.data()));
}

Status wait_all(std::span<MPI_Request> requests, const Deadline& deadline,
                const std::string& what) {
  Backoff backoff;
  while (true) {
    int done = 0;
    const int code =
        MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    if (code != MPI_SUCCESS) {
      return Error(ExitCode::peer_lost, fmt::format("{}: MPI reports error {}", what, code));
    }
    if (done != 0) return {};
    if (deadline.passed()) {
      return Error(ExitCode::peer_lost,
                   fmt::format("{} did not end within {:g} s: a peer is lost or stuck", what,
                               deadline.limit_s()));
    }
    backoff.pause();
  }
}

}  // namespace adaptra::mpi
