#pragma once
// Kokkos from initialisation to finalisation, and where a rank computes. Made in main() after MPI
// and before anything that holds a View; all Views die before it.

#include <Kokkos_Core.hpp>

#include <memory>
#include <string>

namespace adaptra::device {

using Exec = Kokkos::DefaultExecutionSpace;
using Memory = Exec::memory_space;

/// Contiguous memory where the kernels run.
template <typename T>
using Buffer = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;

/// True where the host can touch Buffers, so that no copies are needed.
inline constexpr bool host_accessible =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, Memory>::accessible;

class Session {
 public:
  /// Initialises Kokkos on the device of this rank: `local_rank` is its index among the ranks of
  /// its host. `threads` is the number of host threads that this rank may use (0: what the
  /// environment says). Throws Error{environment}.
  Session(int local_rank, int threads);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int threads() const { return threads_; }
  /// "Serial host, 1 thread, oneDNN" or "CUDA device 2 (NVIDIA H200), cuBLAS".
  std::string describe() const;

 private:
  std::unique_ptr<Kokkos::ScopeGuard> guard_;
  int threads_ = 1;
};

/// The library behind gemm(): "oneDNN", "BLAS", "cuBLAS".
std::string gemm_library();

}  // namespace adaptra::device
