#include "plan/plan.hpp"

#include "plan/check.hpp"
#include "plan/simulate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adaptra::plan {
namespace {

using ::testing::HasSubstr;

constexpr Policy baselines[] = {Policy::gpipe,  Policy::one_f_one_b, Policy::zb_h1,  Policy::zb_h2,
                                Policy::greedy, Policy::slackness,   Policy::adaptra};

PlanOptions quick() {
  PlanOptions options;
  options.budget_evals = 500;
  return options;
}

TEST(MakePlan, EveryPolicyWorksForEverySize) {
  for (int stages = 1; stages <= 5; ++stages) {
    for (int n = 1; n <= 7; ++n) {
      const Profile p = uniform_profile(stages, n, 3, 5, 2);
      for (const Policy policy : baselines) {
        const Result<Plan> plan = make_plan(p, policy, quick());
        ASSERT_TRUE(plan.ok()) << to_string(policy) << plan.error().what();
        EXPECT_TRUE(check(p, plan.value().order).ok());
        EXPECT_EQ(plan.value().makespan_ns, simulate(p, plan.value().order).value().makespan_ns);
        EXPECT_GE(plan.value().makespan_ns, plan.value().lower_bound_ns);
        EXPECT_EQ(plan.value().warmup.back(), policy == Policy::gpipe ? n : 1) << to_string(policy);
      }
    }
  }
}

TEST(MakePlan, JsonReadsBack) {
  Profile p = uniform_profile(3, 5, 3, 5, 2);
  p.links[1].mode = LinkMode::direct;
  PlanOptions options = quick();
  options.plan_version = 7;
  const Plan plan = make_plan(p, Policy::greedy, options).value();
  const Result<Plan> back = parse_plan(to_json(plan));
  ASSERT_TRUE(back.ok()) << back.error().what();
  EXPECT_EQ(back.value().order, plan.order);
  EXPECT_EQ(back.value().plan_version, 7);
  EXPECT_EQ(back.value().makespan_ns, plan.makespan_ns);
  EXPECT_EQ(back.value().warmup, plan.warmup);
}

TEST(MakePlan, OrderAloneIsEnoughToRead) {
  const Result<Plan> plan = parse_plan(R"({"order":[["F0","B0","W0"]]})");
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan.value().stages, 1);
  EXPECT_EQ(plan.value().microbatches, 1);
}

TEST(MakePlan, BadPlansAreNamed) {
  for (const auto& [text, expected] : std::vector<std::pair<const char*, const char*>>{
           {"{}", "order"},
           {R"({"order":[]})", "order"},
           {R"({"order":[7]})", "order[0]"},
           {R"({"order":[[]]})", "no ops"},
           {R"({"order":[["F0",3]]})", "order[0][1]"},
           {R"({"order":[["Q0"]]})", "order[0][0]"},
           {R"({"order":[["F0","B0","W0"]],"stages":2})", "stages"},
           {R"({"format":"x","order":[["F0","B0","W0"]]})", "format"}}) {
    const Result<Plan> plan = parse_plan(text);
    ASSERT_FALSE(plan.ok()) << text;
    EXPECT_EQ(plan.error().code(), ExitCode::usage);
    EXPECT_THAT(plan.error().what(), HasSubstr(expected));
  }
}

TEST(MakePlan, TooLittleMemorySaysWhatIsNeeded) {
  Profile p = uniform_profile(2, 4, 1, 1, 1);
  p.activation_bytes = {10, 10};
  p.activation_bytes_after_b = {16, 16};
  p.memory_limit_bytes = {100, 15};
  const Result<Plan> plan = make_plan(p, Policy::greedy, quick());
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code(), ExitCode::impossible_plan);
  EXPECT_THAT(plan.error().what(), HasSubstr("memory_limit_bytes[1]"));
  EXPECT_THAT(plan.error().what(), HasSubstr("needs 16"));
}

TEST(MakePlan, FixedPatternsThatDoNotFitAreRefused) {
  const Profile p = uniform_profile(2, 4, 1, 1, 1);
  PlanOptions options = quick();
  options.in_flight_limit = 2;
  EXPECT_TRUE(make_plan(p, Policy::one_f_one_b, options).ok());
  const Result<Plan> gpipe = make_plan(p, Policy::gpipe, options);
  ASSERT_FALSE(gpipe.ok());
  EXPECT_EQ(gpipe.error().code(), ExitCode::impossible_plan);
}

}  // namespace
}  // namespace adaptra::plan
