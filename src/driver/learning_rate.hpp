#pragma once
// Linear warm-up, then a half cosine down to the minimum, then constant: the schedule of GPT-2
// trainings.

#include <cstdint>

namespace adaptra::driver {

struct LearningRate {
  double peak = 6e-4;
  double minimum = 6e-5;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;  ///< the minimum is reached at this step; at least warmup_steps

  /// Rate of step 1, 2, ...; step 0 is never run. Pure.
  double at(std::int64_t step) const;
};

}  // namespace adaptra::driver
