#include "plan/exact.hpp"

#include "plan/plan.hpp"
#include "plan/simulate.hpp"
#include "random_profile.hpp"

#include <gtest/gtest.h>

namespace adaptra::plan {
namespace {

TEST(Exact, CountsEveryOrder) {
  EXPECT_EQ(exhaustive_combinations(uniform_profile(1, 1, 1, 1, 1)), 1.0);
  EXPECT_EQ(exhaustive_combinations(uniform_profile(1, 2, 1, 1, 1)), 5.0);
  EXPECT_NEAR(exhaustive_combinations(uniform_profile(3, 3, 1, 1, 1)), 74088.0, 0.5);
  const ExactResult r = solve_exhaustively(uniform_profile(2, 3, 1, 1, 1), 0).value();
  EXPECT_NE(r.solver.find("(1764 combinations)"), std::string::npos) << r.solver;
}

TEST(Exact, CbcFindsTheSameOptimum) {
  if (!has_cbc()) GTEST_SKIP() << "this build has no CBC";
  std::mt19937_64 random(11);
  for (int round = 0; round < scaled(6); ++round) {
    const Profile p = random_profile(random, 3, 2, Limits::some);
    for (int limit = 0; limit <= 1; ++limit) {
      CbcOptions options;
      options.in_flight_limit = limit;
      options.time_limit_s = 30;
      const Result<ExactResult> cbc = solve_with_cbc(p, options);
      ASSERT_TRUE(cbc.ok()) << cbc.error().what() << to_json(p);
      const ExactResult truth = solve_exhaustively(p, limit).value();
      ASSERT_TRUE(cbc.value().optimal);
      // CBC's feasibility tolerance: a millionth of the longest op.
      EXPECT_NEAR(static_cast<double>(cbc.value().makespan_ns),
                  static_cast<double>(truth.makespan_ns),
                  3e-5 * static_cast<double>(truth.makespan_ns) + 2)
          << to_json(p);
    }
  }
}

TEST(Exact, ThePolicyProvesItsPlan) {
  const Profile p = uniform_profile(2, 3, 3, 5, 2);
  const Plan plan = make_plan(p, Policy::exact).value();
  EXPECT_EQ(plan.proven, "optimal");
  EXPECT_EQ(plan.gap, 0.0);
}

}  // namespace
}  // namespace adaptra::plan
