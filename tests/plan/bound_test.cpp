#include "plan/bound.hpp"

#include "plan/plan.hpp"

#include <gtest/gtest.h>

namespace adaptra::plan {
namespace {

constexpr std::int64_t ms = 1'000'000;

TEST(Bound, FourUniformStagesMeetIt) {
  const Profile p = uniform_profile(4, 12, 10 * ms, 10 * ms, 10 * ms);
  EXPECT_EQ(lower_bound(p).makespan_ns, 390 * ms);
  const Plan plan = make_plan(p, Policy::greedy).value();
  EXPECT_EQ(plan.makespan_ns, plan.lower_bound_ns);
  EXPECT_EQ(plan.proven, "optimal");
}

TEST(Bound, MemoryRaisesIt) {
  const Profile p = uniform_profile(4, 12, 10 * ms, 10 * ms, 10 * ms);
  // One in flight: a microbatch stays 4 F, 4 B and one W on the first stage, one after the other.
  EXPECT_EQ(lower_bound(p, 1).makespan_ns, 12 * 90 * ms);
  PlanOptions options;
  options.in_flight_limit = 1;
  options.budget_evals = 100;
  EXPECT_EQ(make_plan(p, Policy::adaptra, options).value().makespan_ns, 12 * 90 * ms);
}

TEST(Bound, NamesTheLinkThatDecides) {
  Profile p = uniform_profile(3, 10, 10 * ms, 10 * ms, 10 * ms);
  EXPECT_TRUE(lower_bound(p).bandwidth_bound.empty());
  p.links[1].backward_occupancy_ns = 40 * ms;
  const LowerBound bound = lower_bound(p);
  ASSERT_EQ(bound.bandwidth_bound.size(), 1U);
  EXPECT_EQ(bound.bandwidth_bound[0].link, 1);
  EXPECT_EQ(bound.bandwidth_bound[0].direction, BandwidthBound::Direction::backward);
  // 3 F and one B before the first message, ten messages, then B B W.
  EXPECT_EQ(bound.makespan_ns, (40 + 400 + 30) * ms);
  PlanOptions options;
  options.budget_evals = 500;
  const Plan plan = make_plan(p, Policy::adaptra, options).value();
  EXPECT_EQ(plan.best_reachable_ns, bound.makespan_ns);
  ASSERT_EQ(plan.bandwidth_bound.size(), 1U);
}

}  // namespace
}  // namespace adaptra::plan
