#include "plan/slack.hpp"

#include "plan/plan.hpp"
#include "plan/simulate.hpp"

#include <gtest/gtest.h>

namespace adaptra::plan {
namespace {

constexpr std::int64_t ms = 1'000'000;

// S=2, N=30, D=2: delays up to 9.1 ms fit (measured figures: 8 ms adds 8, 12 ms adds 50). The
// criterion allows 2 d + 1 %, so the limit lies where 2 c + 9.1 ms meets the steep part.
TEST(Slack, IsTheLargestDelayThatCostsOnlyItself) {
  const Profile p = uniform_profile(2, 30, 10 * ms, 10 * ms, 10 * ms);
  const Order order = generate(p, Policy::greedy).value().order;
  const std::int64_t base = simulate(p, order).value().makespan_ns;
  const std::int64_t absorbed = absorbed_ns(p, order).value().at(0);
  const auto added = [&](std::int64_t d) {
    return simulate(with_more_delay(p, 0, d), order).value().makespan_ns - base;
  };
  EXPECT_LE(added(absorbed), 2 * absorbed + base / 100);
  const std::int64_t more = absorbed + absorbed / 256;
  EXPECT_GT(added(more), 2 * more + base / 100);
  EXPECT_GT(absorbed, 10 * ms);
  EXPECT_LT(absorbed, 12 * ms);
}

TEST(Slack, OneMicrobatchAbsorbsAnything) {
  const Profile p = uniform_profile(2, 1, 10, 10, 10);
  const Order order = generate(p, Policy::greedy).value().order;
  EXPECT_GT(absorbed_ns(p, order).value().at(0), 8 * 30);
}

TEST(Slack, TheTieBreakAbsorbsMoreAndCostsLittle) {
  Profile p = uniform_profile(4, 16, 10 * ms, 10 * ms, 10 * ms);
  PlanOptions options;
  options.budget_evals = 8000;
  options.in_flight_limit = 8;
  const Plan tight = make_plan(p, Policy::adaptra, options).value();
  options.spare_tolerance = start_up_tolerance;
  const Plan spare = make_plan(p, Policy::adaptra, options).value();
  const Plan plain = make_plan(p, Policy::one_f_one_b, options).value();
  const auto least = [&](const Plan& plan) {
    return *std::min_element(plan.absorbs_ns.begin(), plan.absorbs_ns.end());
  };
  EXPECT_LE(static_cast<double>(spare.makespan_ns), 1.005 * static_cast<double>(tight.makespan_ns));
  EXPECT_GE(least(spare), least(tight));
  EXPECT_GT(least(spare), least(plain));
}

}  // namespace
}  // namespace adaptra::plan
