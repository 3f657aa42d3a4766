#include "plan/decide.hpp"

#include "plan/check.hpp"
#include "plan/simulate.hpp"

#include <fmt/format.h>

namespace adaptra::plan {
namespace {

// Makespan, or -1 if the order cannot run under the profile.
std::int64_t predict(const Profile& profile, const Order& order) {
  if (!check(profile, order).ok()) return -1;
  const Result<Schedule> schedule = simulate(profile, order);
  return schedule ? schedule.value().makespan_ns : -1;
}

double ms(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-6;
}

}  // namespace

Decision keep_or_switch(const Plan& current, const Plan& proposed, const Profile& now,
                        const SwitchCost& cost) {
  Decision d;
  d.current_ns = predict(now, current.order);
  d.proposed_ns = predict(now, proposed.order);
  if (d.proposed_ns < 0) {
    d.reason = "keep: the proposed plan cannot run under the profile as it is now";
    return d;
  }
  if (d.current_ns < 0) {
    d.choice = Decision::Choice::take_new;
    d.reason = fmt::format(
        "switch: the current plan cannot run any more; the new one takes {:.3f} ms per step",
        ms(d.proposed_ns));
    return d;
  }
  d.gain_ns = d.current_ns - d.proposed_ns;
  const std::string figures =
      fmt::format("{:.3f} ms to {:.3f} ms per step", ms(d.current_ns), ms(d.proposed_ns));
  const double share =
      d.current_ns > 0 ? static_cast<double>(d.gain_ns) / static_cast<double>(d.current_ns) : 0.0;
  if (d.gain_ns <= 0) {
    d.reason = fmt::format("keep: the new plan is not faster ({})", figures);
  } else if (share <= cost.noise) {
    d.reason = fmt::format("keep: a gain of {:.2f} % is within the noise of {:.2f} % ({})",
                           100 * share, 100 * cost.noise, figures);
  } else if (static_cast<double>(d.gain_ns) * cost.steps_ahead <=
             static_cast<double>(cost.switch_ns)) {
    d.reason = fmt::format("keep: {} steps of gain do not pay for {:.3f} ms of switching ({})",
                           cost.steps_ahead, ms(cost.switch_ns), figures);
  } else {
    d.choice = Decision::Choice::take_new;
    d.reason = fmt::format("switch: {:.2f} % faster, {}", 100 * share, figures);
  }
  return d;
}

}  // namespace adaptra::plan
