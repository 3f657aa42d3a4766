// Rules that hold for every pipeline, over random ones.
#include "plan/bound.hpp"
#include "plan/check.hpp"
#include "plan/exact.hpp"
#include "plan/plan.hpp"
#include "plan/search.hpp"
#include "plan/simulate.hpp"
#include "plan/slack.hpp"
#include "random_profile.hpp"

#include <gtest/gtest.h>

namespace adaptra::plan {
namespace {

// The claims of a plan against the independent validator and a replay.
void expect_honest(const Profile& p, const Plan& plan, int in_flight_limit) {
  CheckOptions rules;
  rules.in_flight_limit = in_flight_limit;
  const CheckReport report = check(p, plan.order, rules);
  ASSERT_TRUE(report.ok()) << marked_grid(plan.order, report) << to_json(p);
  const Schedule replay = simulate(p, plan.order).value();
  EXPECT_EQ(plan.makespan_ns, replay.makespan_ns);
  EXPECT_GE(plan.makespan_ns, plan.lower_bound_ns) << to_json(p);
  for (std::size_t i = 0; i < plan.peak_bytes.size(); ++i) {
    EXPECT_LE(plan.peak_bytes[i], p.memory_limit_bytes[i]);
    if (in_flight_limit > 0) {
      EXPECT_LE(plan.in_flight_peak[i], in_flight_limit);
    }
  }
}

TEST(Property, EveryPolicyIsFeasibleAndHonest) {
  std::mt19937_64 random(1);
  for (int round = 0; round < scaled(400); ++round) {
    const Profile p = random_profile(random, 7, 14, Limits::some);
    PlanOptions options;
    options.budget_evals = 300;
    options.seed = random();
    options.in_flight_limit = random() % 2 == 0 ? 0 : static_cast<int>(1 + random() % 9);
    for (const Policy policy : {Policy::gpipe, Policy::one_f_one_b, Policy::zb_h1, Policy::zb_h2,
                                Policy::greedy, Policy::slackness, Policy::adaptra}) {
      const Result<Plan> plan = make_plan(p, policy, options);
      const bool fixed = policy == Policy::gpipe || policy == Policy::one_f_one_b;
      if (!plan) {
        EXPECT_TRUE(fixed) << to_string(policy) << ": " << plan.error().what() << to_json(p);
        EXPECT_EQ(plan.error().code(), ExitCode::impossible_plan);
        continue;
      }
      expect_honest(p, plan.value(), options.in_flight_limit);
    }
  }
}

TEST(Property, AdaptraIsNeverSlowerThanABaselineThatFits) {
  std::mt19937_64 random(2);
  for (int round = 0; round < scaled(60); ++round) {
    const Profile p = random_profile(random, 6, 12, Limits::some);
    PlanOptions options;
    options.budget_evals = 500;
    const std::int64_t ours = make_plan(p, Policy::adaptra, options).value().makespan_ns;
    for (const Policy policy :
         {Policy::one_f_one_b, Policy::zb_h1, Policy::zb_h2, Policy::greedy, Policy::slackness}) {
      const Result<Plan> other = make_plan(p, policy, options);
      if (other) {
        EXPECT_LE(ours, other.value().makespan_ns) << to_string(policy) << to_json(p);
      }
    }
  }
}

TEST(Property, TheBoundNeverPassesTheOptimumAndTheSearchOftenMeetsIt) {
  std::mt19937_64 random(3);
  int met = 0;
  int tried = 0;
  for (int round = 0; round < scaled(40); ++round) {
    const Profile p = random_profile(random, 3, round % 10 == 0 ? 3 : 2, Limits::some);
    for (int limit = 0; limit <= p.microbatches; ++limit) {
      const ExactResult exact = solve_exhaustively(p, limit).value();
      ASSERT_LE(lower_bound(p, limit).makespan_ns, exact.makespan_ns) << limit << to_json(p);
      PlanOptions options;
      options.budget_evals = 2000;
      options.in_flight_limit = limit;
      const Plan plan = make_plan(p, Policy::adaptra, options).value();
      ASSERT_GE(plan.makespan_ns, exact.makespan_ns);
      ++tried;
      met += plan.makespan_ns == exact.makespan_ns ? 1 : 0;
    }
  }
  EXPECT_GE(met, tried * 95 / 100) << met << " of " << tried;
}

TEST(Property, TheBoundIsTightOnOneStage) {
  std::mt19937_64 random(4);
  for (int round = 0; round < scaled(50); ++round) {
    const Profile p = random_profile(random, 1, 8, Limits::some);
    const Plan plan = make_plan(p, Policy::greedy).value();
    EXPECT_EQ(plan.makespan_ns, plan.lower_bound_ns);
    EXPECT_EQ(plan.proven, "optimal");
  }
}

TEST(Property, TheSearchPredictsWhatTheSimulatorFinds) {
  std::mt19937_64 random(5);
  for (int round = 0; round < scaled(100); ++round) {
    const Profile p = random_profile(random, 6, 12, Limits::some);
    const Order start = generate(p, Policy::greedy).value().order;
    SearchOptions options;
    options.budget_evals = 400;
    options.seed = random();
    const SearchResult found = search(p, {start}, options);
    const Schedule schedule = simulate(p, found.order).value();
    EXPECT_EQ(found.makespan_ns, schedule.makespan_ns) << to_json(p);
    EXPECT_TRUE(check(p, found.order).ok());
  }
}

TEST(Property, DelayIsNeverGood) {
  std::mt19937_64 random(6);
  for (int round = 0; round < scaled(100); ++round) {
    const Profile p = random_profile(random, 6, 12, Limits::none);
    const Order order = generate(p, Policy::greedy).value().order;
    const std::int64_t base = simulate(p, order).value().makespan_ns;
    for (int link = 0; link + 1 < p.stages; ++link) {
      EXPECT_GE(simulate(with_more_delay(p, link, 12345), order).value().makespan_ns, base);
    }
  }
}

}  // namespace
}  // namespace adaptra::plan
