#pragma once
// What the fuzzer and the ordinary test feed with bytes: the readers of profiles and plans.
// Whatever they accept must survive a round trip; nothing may crash, hang or overflow.

#include "plan/check.hpp"
#include "plan/plan.hpp"
#include "plan/profile.hpp"
#include "plan/simulate.hpp"

#include <cstdlib>
#include <string_view>

namespace adaptra::plan {

inline void feed_readers(std::string_view bytes) {
  const Result<Profile> profile = parse_profile(bytes);
  if (profile) {
    const Result<Profile> again = parse_profile(to_json(profile.value()));
    if (!again || !(again.value() == profile.value())) std::abort();
    // Small ones are also planned and simulated: no sum of accepted times may overflow.
    if (profile.value().stages * profile.value().microbatches <= 64) {
      const Result<Plan> plan = make_plan(profile.value(), Policy::greedy);
      if (plan && !check(profile.value(), plan.value().order).ok()) std::abort();
    }
  }
  const Result<Plan> plan = parse_plan(bytes);
  if (plan) {
    const Result<Plan> again = parse_plan(to_json(plan.value()));
    if (!again || !(again.value().order == plan.value().order)) std::abort();
    if (plan.value().microbatches > 0 && plan.value().microbatches < 1000) {
      const Profile p = uniform_profile(plan.value().stages, plan.value().microbatches, 1, 1, 1);
      const bool valid = check(p, plan.value().order).ok();
      if (valid != simulate(p, plan.value().order).ok()) std::abort();
    }
  }
}

}  // namespace adaptra::plan
