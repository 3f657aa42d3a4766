#include "plan/simulate.hpp"

#include "plan/generate.hpp"

#include <gtest/gtest.h>

namespace adaptra::plan {
namespace {

constexpr std::int64_t ms = 1'000'000;

Profile with_delay(Profile p, std::size_t link, std::int64_t delay) {
  p.links[link].forward_delay_ns = delay;
  p.links[link].backward_delay_ns = delay;
  return p;
}

// An order by B > F > W generated under `scheduling` delay on link 0, replayed under `actual`.
std::int64_t replay_ms(int stages, int n, std::int64_t scheduling, std::int64_t actual) {
  const Profile p = uniform_profile(stages, n, 10 * ms, 10 * ms, 10 * ms);
  const Result<Order> order = generate_by_simulation(with_delay(p, 0, scheduling * ms), {});
  EXPECT_TRUE(order.ok());
  const Result<Schedule> schedule = simulate(with_delay(p, 0, actual * ms), order.value());
  EXPECT_TRUE(schedule.ok());
  return schedule.value().makespan_ns / ms;
}

TEST(Simulate, FourStagesReproduceTheFigures) {
  const Profile p = uniform_profile(4, 12, 10 * ms, 10 * ms, 10 * ms);
  const Result<Order> order = generate_by_simulation(p, {});
  ASSERT_TRUE(order.ok());
  EXPECT_EQ(warmup(order.value()), (std::vector<int>{7, 5, 3, 1}));
  const Schedule schedule = simulate(p, order.value()).value();
  EXPECT_EQ(schedule.makespan_ns, 390 * ms);
  for (const double bubble : schedule.bubble) EXPECT_NEAR(bubble, 0.077, 0.0005);
  EXPECT_EQ(replay_ms(4, 12, 0, 10), 400);
  EXPECT_EQ(replay_ms(4, 12, 0, 20), 440);
}

TEST(Simulate, TwoStagesReproduceKneeAndSlope) {
  const auto added = [](int d, std::int64_t c) {
    return replay_ms(2, 30, 5 * (d - 2), c) - replay_ms(2, 30, 5 * (d - 2), 0);
  };
  EXPECT_EQ(replay_ms(2, 30, 0, 0), 910);
  const std::vector<std::pair<std::int64_t, std::int64_t>> d2 = {{0, 0},   {4, 4},    {8, 8},
                                                                 {12, 50}, {16, 130}, {20, 210}};
  for (const auto& [c, time] : d2) EXPECT_EQ(added(2, c), time) << "D=2 c=" << c;
  const std::vector<std::pair<std::int64_t, std::int64_t>> d3 = {
      {16, 16}, {20, 20}, {24, 84}, {28, 148}};
  for (const auto& [c, time] : d3) EXPECT_EQ(added(3, c), time) << "D=3 c=" << c;
  const std::vector<std::pair<std::int64_t, std::int64_t>> d4 = {{28, 28}, {32, 54}, {36, 102}};
  for (const auto& [c, time] : d4) EXPECT_EQ(added(4, c), time) << "D=4 c=" << c;
}

TEST(Simulate, OneStageIsTheSumOfItsOps) {
  const Profile p = uniform_profile(1, 3, 1, 2, 4);
  const Order order = parse_order("F0 F1 B0 W0 F2 B1 B2 W1 W2").value();
  const Schedule schedule = simulate(p, order).value();
  EXPECT_EQ(schedule.makespan_ns, 21);
  EXPECT_EQ(schedule.bubble[0], 0.0);
  EXPECT_EQ(schedule.in_flight_peak[0], 2);
}

// Worked by hand: tF = tB = tW = 1, message of 2 on the wire, latency 3 down; 1 and 0 up.
TEST(Simulate, OccupancyQueuesMessagesAndLatencyDoesNot) {
  Profile p = uniform_profile(2, 2, 1, 1, 1);
  p.links[0].forward_delay_ns = 3;
  p.links[0].forward_occupancy_ns = 2;
  p.links[0].backward_occupancy_ns = 1;
  const Order order = parse_order("F0 F1 B0 B1 W0 W1\nF0 B0 F1 B1 W0 W1").value();
  const Schedule s = simulate(p, order).value();
  EXPECT_EQ(s.forward[0].left_ns, (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(s.forward[0].arrived_ns, (std::vector<std::int64_t>{6, 8}));
  EXPECT_EQ(s.ops[1][0], (OpTime{6, 7}));   // F0
  EXPECT_EQ(s.ops[1][1], (OpTime{7, 8}));   // B0
  EXPECT_EQ(s.ops[1][2], (OpTime{8, 9}));   // F1
  EXPECT_EQ(s.ops[1][3], (OpTime{9, 10}));  // B1
  EXPECT_EQ(s.backward[0].arrived_ns, (std::vector<std::int64_t>{9, 11}));
  EXPECT_EQ(s.ops[0][2], (OpTime{9, 10}));
  EXPECT_EQ(s.ops[0][3], (OpTime{11, 12}));
  EXPECT_EQ(s.makespan_ns, 14);
}

TEST(Simulate, DirectLinksHoldTheSender) {
  Profile p = uniform_profile(2, 2, 1, 1, 1);
  p.links[0].forward_delay_ns = 3;
  p.links[0].forward_occupancy_ns = 2;
  p.links[0].mode = LinkMode::direct;
  const Order order = parse_order("F0 F1 B0 B1 W0 W1\nF0 B0 F1 B1 W0 W1").value();
  EXPECT_EQ(simulate(p, order).value().ops[0][1], (OpTime{6, 7}));
  p.links[0].forward_hold_ns = 1;
  EXPECT_EQ(simulate(p, order).value().ops[0][1], (OpTime{2, 3}));
}

TEST(Simulate, MemoryFollowsTheThreePhases) {
  Profile p = uniform_profile(1, 2, 1, 1, 1);
  p.activation_bytes = {10};
  p.activation_bytes_after_b = {16};
  p.workspace_bytes = {3};
  const auto peak = [&](const char* order) {
    return simulate(p, parse_order(order).value()).value().peak_bytes[0];
  };
  EXPECT_EQ(peak("F0 B0 W0 F1 B1 W1"), 16 + 3);
  EXPECT_EQ(peak("F0 F1 B0 W0 B1 W1"), 10 + 16 + 3);
  EXPECT_EQ(peak("F0 F1 B0 B1 W0 W1"), 16 + 16 + 3);
  p.activation_bytes_after_b = {4};
  EXPECT_EQ(peak("F0 F1 B0 B1 W0 W1"), 20 + 3);
}

TEST(Simulate, SaysWhereAnOrderNeverEnds) {
  const Profile p = uniform_profile(2, 2, 1, 1, 1);
  const Order order = parse_order("F0 B0 W0 F1 B1 W1\nF0 F1 B0 W0 B1 W1").value();
  const Result<Schedule> schedule = simulate(p, order);
  ASSERT_FALSE(schedule.ok());
  EXPECT_EQ(schedule.error().code(), ExitCode::impossible_plan);
  EXPECT_NE(std::string(schedule.error().what()).find("stage 0 at B0"), std::string::npos);
  EXPECT_NE(std::string(schedule.error().what()).find("stage 1 at F1"), std::string::npos);
}

TEST(Simulate, RefusesOrdersThatDoNotFit) {
  const Profile p = uniform_profile(1, 2, 1, 1, 1);
  for (const char* text : {"F0 B0 W0", "F0 F0 B0 B1 W0 W1", "F1 F0 B0 B1 W0 W1",
                           "F0 F1 B0 B1 W0 W1\nF0 F1 B0 B1 W0 W1"}) {
    EXPECT_FALSE(simulate(p, parse_order(text).value()).ok()) << text;
  }
}

}  // namespace
}  // namespace adaptra::plan
