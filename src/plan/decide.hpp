#pragma once
// Keep the present plan, or take the new one? A pure function.

#include "core/error.hpp"
#include "plan/plan.hpp"

#include <cstdint>
#include <string>

namespace adaptra::plan {

struct SwitchCost {
  std::int64_t switch_ns = 0;  ///< what changing the plan costs once
  double noise = 0.01;         ///< relative; a gain below it cannot be told from noise
  int steps_ahead = 50;        ///< how many steps the new state is expected to last
};

struct Decision {
  enum class Choice { keep, take_new } choice = Choice::keep;
  std::int64_t current_ns = 0;   ///< predicted step of the current plan under the profile now
  std::int64_t proposed_ns = 0;  ///< predicted step of the proposal under the profile now
  std::int64_t gain_ns = 0;      ///< per step; may be negative
  std::string reason;            ///< one sentence for the log
};

/// Predicts both under `now` and takes the proposal only if its gain per step is above the noise
/// and pays for the switch within the steps ahead. A current plan that cannot run under `now` is
/// replaced whatever it costs; a proposal that cannot run is never taken.
Decision keep_or_switch(const Plan& current, const Plan& proposed, const Profile& now,
                        const SwitchCost& cost);

}  // namespace adaptra::plan
