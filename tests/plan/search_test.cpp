#include "plan/search.hpp"

#include "plan/generate.hpp"
#include "plan/plan.hpp"
#include "plan/simulate.hpp"
#include "recorded_cases.hpp"

#include <gtest/gtest.h>

namespace adaptra::plan {
namespace {

PlanOptions evaluations(std::uint64_t count) {
  PlanOptions options;
  options.budget_evals = count;
  return options;
}

TEST(Search, IsDeterministicGivenTheSeed) {
  const RecordedCase c = recorded_cases().at(2);
  PlanOptions options = evaluations(5000);
  options.in_flight_limit = 8;
  const Plan one = make_plan(c.profile, Policy::adaptra, options).value();
  const Plan two = make_plan(c.profile, Policy::adaptra, options).value();
  EXPECT_EQ(one.order, two.order);
}

TEST(Search, StopsWhenAsked) {
  const RecordedCase c = recorded_cases().at(2);
  std::stop_source source;
  source.request_stop();
  PlanOptions options;
  options.budget_ms = 1e9;  // would run for days
  options.in_flight_limit = 8;
  options.stop = source.get_token();
  EXPECT_TRUE(make_plan(c.profile, Policy::adaptra, options).ok());
}

// Mean ratio to the published policy without a memory limit, as the quality figures are stated.
double mean_ratio(int limit_in_stages, std::uint64_t evals) {
  double sum = 0.0;
  const std::vector<RecordedCase> cases = recorded_cases();
  for (const RecordedCase& c : cases) {
    PlanOptions options = evaluations(evals);
    options.in_flight_limit = limit_in_stages * c.profile.stages;
    const Plan plan = make_plan(c.profile, Policy::adaptra, options).value();
    sum += static_cast<double>(plan.makespan_ns) * 1e-6 / c.published_unlimited_ms;
  }
  return sum / static_cast<double>(cases.size());
}

TEST(Search, QualityOnRecordedClusters) {
  // A hundredth of a second of a release build; the benchmark gives the figures for 0.1 s and 2 s.
  constexpr std::uint64_t evals = 20'000;
  EXPECT_LE(mean_ratio(0, evals), 1.000);
  EXPECT_LE(mean_ratio(2, evals), 1.050);
  EXPECT_LE(mean_ratio(1, evals), 1.330);
}

TEST(Search, TheBaselinesGiveThePublishedFigures) {
  // The published policy without a memory limit, and with the plain guard, on the recorded cases.
  double unlimited = 0.0;
  for (const RecordedCase& c : recorded_cases()) {
    const Plan greedy = make_plan(c.profile, Policy::greedy).value();
    unlimited += static_cast<double>(greedy.makespan_ns) * 1e-6 / c.published_unlimited_ms;
  }
  EXPECT_NEAR(unlimited / static_cast<double>(recorded_cases().size()), 1.0, 0.01);
}

TEST(Search, RobustToP95WithinOnePercentAtTheMean) {
  for (RecordedCase c : recorded_cases()) {
    for (Link& link : c.profile.links) {
      if (link.forward_delay_ns == 0) continue;
      link.forward_delay_p95_ns = 2 * link.forward_delay_ns;
      link.backward_delay_p95_ns = 2 * link.backward_delay_ns;
    }
    Profile mean = c.profile;
    for (Link& link : mean.links) link.forward_delay_p95_ns = link.backward_delay_p95_ns = -1;
    PlanOptions options = evaluations(6000);
    options.in_flight_limit = 2 * c.profile.stages;
    const Plan robust = make_plan(c.profile, Policy::adaptra, options).value();
    // The mean's best is found with the same share of the budget as inside.
    options.budget_evals = 3600;
    const Plan plain = make_plan(mean, Policy::adaptra, options).value();
    const std::int64_t plain_p95 = simulate(at_p95(c.profile), plain.order).value().makespan_ns;
    EXPECT_LE(static_cast<double>(robust.makespan_ns),
              1.015 * static_cast<double>(plain.makespan_ns))
        << c.profile.name;
    EXPECT_LE(static_cast<double>(robust.makespan_p95_ns), 1.001 * static_cast<double>(plain_p95))
        << c.profile.name;
  }
}

}  // namespace
}  // namespace adaptra::plan
