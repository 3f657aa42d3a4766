#include "device/session.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "core/error.hpp"

namespace adaptra::device {
namespace {

// ScopeGuard(argc, argv) is the one way to initialise that Kokkos 3.4 and 4 share.
std::unique_ptr<Kokkos::ScopeGuard> start_kokkos([[maybe_unused]] int local_rank, int threads) {
  std::vector<std::string> arguments = {"adaptra"};
#if defined(KOKKOS_ENABLE_OPENMP)
  arguments.push_back(fmt::format("--kokkos-num-threads={}", threads));
#endif
#if defined(KOKKOS_ENABLE_CUDA)
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    throw Error(ExitCode::environment,
                "this build computes on NVIDIA GPUs and this host shows none: check the driver and "
                "CUDA_VISIBLE_DEVICES, or use a host build");
  }
  arguments.push_back(fmt::format("--kokkos-device-id={}", local_rank % devices));
#endif
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  (void)threads;
  return std::make_unique<Kokkos::ScopeGuard>(count, pointers.data());
}

int threads_to_use(int threads) {
#ifdef _OPENMP
  if (threads > 0) omp_set_num_threads(threads);
  return omp_get_max_threads();
#else
  return threads > 0 ? threads : 1;
#endif
}

}  // namespace

Session::Session(int local_rank, int threads) : threads_(threads_to_use(threads)) {
  guard_ = start_kokkos(local_rank, threads_);
}

Session::~Session() = default;

std::string Session::describe() const {
#if defined(KOKKOS_ENABLE_CUDA)
  int id = 0;
  cudaDeviceProp properties{};
  if (cudaGetDevice(&id) == cudaSuccess &&
      cudaGetDeviceProperties(&properties, id) == cudaSuccess) {
    return fmt::format("CUDA device {} ({}), {}", id, properties.name, gemm_library());
  }
#endif
  return fmt::format("{} host, {} thread{}, {}", Exec::name(), threads_, threads_ == 1 ? "" : "s",
                     gemm_library());
}

}  // namespace adaptra::device
