#include "device/event.hpp"

#include "core/error.hpp"

namespace adaptra::device {

#if defined(KOKKOS_ENABLE_CUDA)

Event::Event() {
  cudaEvent_t event = nullptr;
  if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) != cudaSuccess) {
    throw Error(ExitCode::environment, "cudaEventCreate failed");
  }
  handle_ = event;
}
Event::~Event() {
  cudaEventDestroy(static_cast<cudaEvent_t>(handle_));
}
void Event::set(const Exec& exec) {
  if (cudaEventRecord(static_cast<cudaEvent_t>(handle_), exec.cuda_stream()) != cudaSuccess) {
    throw Error(ExitCode::internal, "cudaEventRecord failed: an earlier kernel may have");
  }
}
bool Event::reached() const {
  const auto state = cudaEventQuery(static_cast<cudaEvent_t>(handle_));
  if (state != cudaSuccess && state != cudaErrorNotReady) {
    throw Error(ExitCode::internal, std::string("a kernel failed: ") + cudaGetErrorString(state));
  }
  return state == cudaSuccess;
}

#else

// Host execution spaces return from a kernel when it is done.
Event::Event() = default;
Event::~Event() = default;
void Event::set(const Exec&) {}
bool Event::reached() const {
  return true;
}

#endif

}  // namespace adaptra::device
