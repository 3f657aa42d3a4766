#include "driver/learning_rate.hpp"

#include <cmath>
#include <numbers>

namespace adaptra::driver {

double LearningRate::at(std::int64_t step) const {
  if (step <= warmup_steps) {
    return peak * static_cast<double>(step) / static_cast<double>(warmup_steps);
  }
  if (step >= decay_steps) return minimum;
  const double progress =
      static_cast<double>(step - warmup_steps) / static_cast<double>(decay_steps - warmup_steps);
  return minimum + 0.5 * (peak - minimum) * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace adaptra::driver
