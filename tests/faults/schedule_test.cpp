#include "faults/schedule.hpp"

#include "core/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adaptra::faults {
namespace {

TEST(Schedule, FaultsHoldForTheirStepsLinksAndWays) {
  Fault fault;
  fault.first_step = 3;
  fault.end_step = 5;
  fault.places = {1};
  fault.ways = {Way::forward};
  fault.amount_s = 0.02;
  const Schedule schedule({fault});
  EXPECT_EQ(schedule.on_link(LinkId(1), Way::forward, 2).latency_ns, 0);
  EXPECT_EQ(schedule.on_link(LinkId(1), Way::forward, 3).latency_ns, 20'000'000);
  EXPECT_EQ(schedule.on_link(LinkId(1), Way::forward, 4).latency_ns, 20'000'000);
  EXPECT_EQ(schedule.on_link(LinkId(1), Way::forward, 5).latency_ns, 0);
  EXPECT_EQ(schedule.on_link(LinkId(1), Way::backward, 3).latency_ns, 0);
  EXPECT_EQ(schedule.on_link(LinkId(0), Way::forward, 3).latency_ns, 0);
}

TEST(Schedule, OverlappingFaultsCombine) {
  Fault slow, slower, narrow, narrower, compute;
  slow.amount_s = 0.01;
  slower.amount_s = 0.03;
  narrow.kind = narrower.kind = Kind::bandwidth;
  narrow.amount_bytes_per_s = 2e6;
  narrower.amount_bytes_per_s = 1e6;
  compute.kind = Kind::slow_compute;
  compute.factor = 1.5;
  compute.places = {2};
  const Schedule schedule({slow, narrow, slower, narrower, compute, compute});
  const auto condition = schedule.on_link(LinkId(7), Way::backward, 100);
  EXPECT_EQ(condition.latency_ns, 40'000'000);
  EXPECT_EQ(condition.bytes_per_s, 1e6);
  EXPECT_EQ(schedule.compute_factor(StageId(2), 0), 2.25);
  EXPECT_EQ(schedule.compute_factor(StageId(1), 0), 1);
}

TEST(Schedule, JitterIsTheSameForTheSameMessageAndWithinItsBound) {
  LinkCondition condition;
  condition.latency_ns = 1000;
  condition.jitter_ns = 500;
  bool differs = false;
  for (int k = 0; k < 50; ++k) {
    const auto ns = latency_ns(condition, LinkId(1), 4, MicrobatchId(k));
    EXPECT_EQ(ns, latency_ns(condition, LinkId(1), 4, MicrobatchId(k)));
    EXPECT_GE(ns, 1000);
    EXPECT_LT(ns, 1500);
    differs = differs || ns != latency_ns(condition, LinkId(1), 4, MicrobatchId(0));
  }
  EXPECT_TRUE(differs);
}

TEST(Schedule, RefusesWhatMakesNoSense) {
  Fault backwards;
  backwards.first_step = 5;
  backwards.end_step = 5;
  EXPECT_THROW(Schedule({backwards}), Error);
  Fault no_bandwidth;
  no_bandwidth.kind = Kind::bandwidth;
  EXPECT_THROW(Schedule({no_bandwidth}), Error);
  Fault negative;
  negative.amount_s = -1;
  EXPECT_THROW(Schedule({negative}), Error);
}

TEST(Trace, LatenciesHoldUntilTheNextLineOfTheLink) {
  const Schedule schedule(
      read_trace("10;2_3;0.03\n20;2_3,0_1;0.05\n30;2_3;0.00\n40;0_1;0\n50;;inf\n", "trace"));
  const auto at = [&](int link, std::int64_t step) {
    return schedule.on_link(LinkId(link), Way::forward, step).latency_ns / 1'000'000;
  };
  EXPECT_EQ(at(2, 9), 0);
  EXPECT_EQ(at(2, 10), 30);
  EXPECT_EQ(at(2, 20), 50);
  EXPECT_EQ(at(2, 30), 0);
  EXPECT_EQ(at(0, 19), 0);
  EXPECT_EQ(at(0, 39), 50);
  EXPECT_EQ(at(0, 40), 0);
  EXPECT_EQ(schedule.on_link(LinkId(1), Way::forward, 49).rails_down, 0U);
  EXPECT_EQ(schedule.on_link(LinkId(1), Way::forward, 50).rails_down, 1U);
}

TEST(ParseFault, ReadsEveryKey) {
  const Fault latency = parse_fault("latency links=6,7 steps=10:20 ms=30 jitter_ms=5 way=forward");
  EXPECT_EQ(latency.places, (std::vector<int>{6, 7}));
  EXPECT_EQ(latency.first_step, 10);
  EXPECT_EQ(latency.end_step, 21);
  EXPECT_DOUBLE_EQ(latency.amount_s, 0.03);
  EXPECT_DOUBLE_EQ(latency.jitter_s, 0.005);
  EXPECT_EQ(latency.ways, std::vector<Way>{Way::forward});
  EXPECT_DOUBLE_EQ(parse_fault("bandwidth mb_per_s=25").amount_bytes_per_s, 25e6);
  const Fault rail = parse_fault("rail_down rail=1 steps=3: after=2");
  EXPECT_EQ(rail.rail, 1);
  EXPECT_EQ(rail.after_messages, 2);
  EXPECT_EQ(rail.end_step, for_ever);
  EXPECT_EQ(parse_fault("slow_compute stages=2 factor=1.5").factor, 1.5);
  EXPECT_EQ(parse_fault("delegate_crash steps=4:4").end_step, 5);
}

TEST(ParseFault, RefusesAndSuggests) {
  for (const auto& [bad, word] :
       std::vector<std::pair<std::string, std::string>>{{"latancy ms=1", "did you mean latency"},
                                                        {"latency link=1", "did you mean links"},
                                                        {"latency ms=fast", "no number"},
                                                        {"latency 5", "not key=value"},
                                                        {"rail_down rail=40", "0 to 31"},
                                                        {"latency steps=5:3", "before the first"},
                                                        {"bandwidth", "above 0"},
                                                        {"", "unknown kind"}}) {
    try {
      parse_fault(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_THAT(error.what(), testing::HasSubstr(word));
    }
  }
}

TEST(Trace, BadLinesAreNamed) {
  for (const char* bad : {"x;0_1;1", "1;0_2;1", "1;0_1", "1;;0.5", "1;0_1;inf", "1;0_1;1;2",
                          "5;0_1;1\n4;0_1;0", "1;0_1;-1", "1;0_1,;x"}) {
    try {
      read_trace(bad, "bad.txt");
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_THAT(error.what(), testing::HasSubstr("bad.txt:"));
    }
  }
}

}  // namespace
}  // namespace adaptra::faults
