#pragma once
// What a rank is doing right now, written by its main thread at almost no cost and read by the
// watchdog thread when something is wrong.

#include <atomic>
#include <cstdint>
#include <string>

namespace adaptra {

enum class Phase : std::uint8_t {
  start_up,
  forward,
  backward_input,
  backward_weight,
  waiting_for_activation,
  waiting_for_gradient,
  waiting_for_send,
  reduction,
  norm,
  optimizer,
  evaluation,
  checkpoint,
  finishing,
};

/// "waiting for the activation".
std::string describe(Phase phase);

/// One per rank. Lock-free: one writer, any readers.
class Progress {
 public:
  static constexpr int no_microbatch = 0xffff;

  void set(Phase phase, int microbatch = no_microbatch) noexcept {
    const auto step = state_.load(std::memory_order_relaxed) >> 24;
    state_.store(step << 24 | std::uint64_t(microbatch & 0xffff) << 8 | std::uint64_t(phase),
                 std::memory_order_relaxed);
  }
  void set_step(std::int64_t step) noexcept {
    state_.store(std::uint64_t(step) << 24 | std::uint64_t(no_microbatch) << 8 |
                     std::uint64_t(Phase::start_up),
                 std::memory_order_relaxed);
  }

  /// "step 12, waiting for the gradient of microbatch 3".
  std::string describe() const;

 private:
  // step (40 bits), microbatch (16), phase (8)
  std::atomic<std::uint64_t> state_{std::uint64_t(no_microbatch) << 8};
};

}  // namespace adaptra
