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
