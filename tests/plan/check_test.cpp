#include "plan/check.hpp"

#include "plan/generate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adaptra::plan {
namespace {

using ::testing::HasSubstr;

std::string first_rule(const Profile& p, const char* order, const CheckOptions& options = {}) {
  const CheckReport report = check(p, parse_order(order).value(), options);
  return report.ok() ? "" : report.violations[0].rule;
}

TEST(Check, AcceptsAValidOrder) {
  const Profile p = uniform_profile(2, 2, 1, 1, 1);
  EXPECT_EQ(first_rule(p, "F0 F1 B0 W0 B1 W1\nF0 B0 F1 B1 W0 W1"), "");
}

TEST(Check, NamesEachBrokenRule) {
  const Profile p = uniform_profile(1, 2, 1, 1, 1);
  EXPECT_THAT(first_rule(p, "F0 B0 W0 F1 B1"), HasSubstr("W1 is missing"));
  EXPECT_THAT(first_rule(p, "F0 B0 W0 F1 B1 W1 F2"), HasSubstr("only 2 microbatches"));
  EXPECT_THAT(first_rule(p, "F0 F0 B0 W0 F1 B1 W1"), HasSubstr("second time"));
  EXPECT_THAT(first_rule(p, "F0 F1 B1 B0 W0 W1"), HasSubstr("in order"));
  EXPECT_THAT(first_rule(p, "B0 F0 W0 F1 B1 W1"), HasSubstr("before F0"));
  EXPECT_THAT(first_rule(p, "F0 W0 B0 F1 B1 W1"), HasSubstr("before B0"));
  EXPECT_THAT(first_rule(p, "F0 B0 W0 F1 B1 W1\nF0 B0 W0 F1 B1 W1"), HasSubstr("2 stages"));
}

TEST(Check, FindsCyclesBetweenStages) {
  const Profile p = uniform_profile(2, 2, 1, 1, 1);
  EXPECT_THAT(first_rule(p, "F0 B0 W0 F1 B1 W1\nF0 F1 B0 W0 B1 W1"), HasSubstr("cycle"));
}

TEST(Check, CountsBytesAndMicrobatches) {
  Profile p = uniform_profile(1, 2, 1, 1, 1);
  p.activation_bytes = {10};
  p.activation_bytes_after_b = {16};
  p.memory_limit_bytes = {25};
  EXPECT_EQ(first_rule(p, "F0 B0 W0 F1 B1 W1"), "");
  EXPECT_THAT(first_rule(p, "F0 F1 B0 W0 B1 W1"), HasSubstr("B0 needs 26 bytes of 25"));
  CheckOptions one;
  one.in_flight_limit = 1;
  p.memory_limit_bytes = {100};
  EXPECT_EQ(first_rule(p, "F0 B0 W0 F1 B1 W1", one), "");
  EXPECT_THAT(first_rule(p, "F0 B0 F1 W0 B1 W1", one), HasSubstr("2 microbatches in flight"));
}

// Sends that wait for their receiver: the steady state of 1F1B sends in both directions at once.
TEST(Check, RendezvousCanBeCyclicWhereReceivesAheadAreNot) {
  Profile p = uniform_profile(2, 4, 1, 1, 1);
  p.links[0].mode = LinkMode::direct;
  const Order order = generate(p, Policy::one_f_one_b).value().order;
  EXPECT_TRUE(check(p, order).ok());
  CheckOptions blocking;
  blocking.send_rule = SendRule::rendezvous;
  EXPECT_FALSE(check(p, order, blocking).ok());
  const Order gpipe = generate(p, Policy::gpipe).value().order;
  EXPECT_TRUE(check(p, gpipe, blocking).ok());
}

TEST(Check, TheGridMarksTheBadCell) {
  const Profile p = uniform_profile(1, 2, 1, 1, 1);
  const Order order = parse_order("F0 W0 B0 F1 B1 W1").value();
  const std::string grid = marked_grid(order, check(p, order));
  EXPECT_THAT(grid, HasSubstr(" F0 [W0] B0 "));
  EXPECT_THAT(grid, HasSubstr("stage 0, op 1: W0 before B0"));
}

}  // namespace
}  // namespace adaptra::plan
