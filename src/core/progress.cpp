#include "core/progress.hpp"

#include <fmt/format.h>

namespace adaptra {

std::string describe(Phase phase) {
  switch (phase) {
    case Phase::start_up:
      return "starting up";
    case Phase::forward:
      return "forward";
    case Phase::backward_input:
      return "backward (input)";
    case Phase::backward_weight:
      return "backward (weights)";
    case Phase::waiting_for_activation:
      return "waiting for the activation";
    case Phase::waiting_for_gradient:
      return "waiting for the gradient";
    case Phase::waiting_for_send:
      return "waiting for a send to leave";
    case Phase::reduction:
      return "reducing gradients";
    case Phase::norm:
      return "agreeing on loss and gradient norm";
    case Phase::optimizer:
      return "in the optimizer";
    case Phase::evaluation:
      return "evaluating";
    case Phase::checkpoint:
      return "checkpointing";
    case Phase::finishing:
      return "finishing";
  }
  return "unknown";
}

std::string Progress::describe() const {
  const auto state = state_.load(std::memory_order_relaxed);
  const auto phase = static_cast<Phase>(state & 0xff);
  const auto microbatch = static_cast<int>(state >> 8 & 0xffff);
  const auto step = state >> 24;
  std::string text = step == 0 ? adaptra::describe(phase)
                               : fmt::format("step {}, {}", step, adaptra::describe(phase));
  if (microbatch != no_microbatch) text += fmt::format(" of microbatch {}", microbatch);
  return text;
}

}  // namespace adaptra
