// Both ends of a link in one process, each with its own delegate: every path, every kind of failure
// that can be made without a second machine.
#include "transport/ucx/ucx_channel.hpp"

#include "mpi/wait.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

namespace adaptra::transport {
namespace {

using ucx::Path;

const Path shared_memory{Path::Kind::shared_memory, ""};
const Path loopback{Path::Kind::network, "lo"};

struct Pair {
  std::unique_ptr<UcxChannel> lower;  // sends forward
  std::unique_ptr<UcxChannel> upper;

  Pair(ucx::LinkSettings settings, const faults::Schedule* faults = nullptr) {
    settings.link = LinkId(2);
    settings.sends = Direction::forward;
    settings.peer = 3;
    lower = std::make_unique<UcxChannel>(settings, faults);
    settings.sends = Direction::backward;
    settings.peer = 2;
    upper = std::make_unique<UcxChannel>(settings, faults);
    const auto address = lower->addresses();
    lower->connect(upper->addresses());
    upper->connect(address);
  }
};

ucx::LinkSettings over(std::vector<Path> paths, std::size_t bytes) {
  ucx::LinkSettings settings;
  settings.paths = std::move(paths);
  settings.message_bytes = bytes;
  settings.send_slots = 4;
  settings.receive_slots = 4;
  settings.deadline_s = 30;
  settings.rail_deadline_s = 1;
  settings.checksum = ucx::Checksum::on;
  return settings;
}

// Contents that tell step, microbatch and direction apart at every place.
std::byte content(Direction direction, std::int64_t step, int microbatch, std::size_t at) {
  const std::uint64_t x =
      (static_cast<std::uint64_t>(step) * 1009 + static_cast<std::uint64_t>(microbatch)) * 2 +
      (direction == Direction::forward ? 0 : 1);
  return static_cast<std::byte>((x * 0x9e3779b97f4a7c15U >> 40) + at * 31 + (at >> 8));
}

void fill(Slot slot, Direction direction, std::int64_t step, int microbatch) {
  for (std::size_t i = 0; i < slot.memory.size(); ++i) {
    slot.memory[i] = content(direction, step, microbatch, i);
  }
}

bool right(Slot slot, Direction direction, std::int64_t step, int microbatch) {
  for (std::size_t i = 0; i < slot.memory.size(); ++i) {
    if (slot.memory[i] != content(direction, step, microbatch, i)) return false;
  }
  return true;
}

Status send_one(UcxChannel& channel, Direction direction, std::int64_t step, int microbatch) {
  auto slot = channel.send_slot();
  if (!slot.ok()) return slot.error();
  fill(*slot, direction, step, microbatch);
  return channel.send(MicrobatchId(microbatch), *slot);
}

// The received message, checked and released.
Status take_one(UcxChannel& channel, Direction direction, std::int64_t step, int microbatch) {
  const auto deadline = mpi::Deadline::after_s(30);
  mpi::Backoff backoff;
  while (true) {
    auto slot = channel.poll_receive(MicrobatchId(microbatch));
    if (!slot.ok()) return slot.error();
    if (slot->has_value()) {
      EXPECT_TRUE(right(**slot, direction, step, microbatch)) << step << " " << microbatch;
      channel.release(**slot);
      return {};
    }
    if (deadline.passed()) return Error(ExitCode::peer_lost, "the test's patience is over");
    backoff.pause();
  }
}

// A step as a pipeline has it: up to `ahead` messages forward before the first comes back.
Status run_step(Pair& pair, std::int64_t step, int n, int ahead) {
  const auto check = [](Status s) { s.throw_if_error(); };
  try {
    check(pair.lower->begin_step(step, n));
    check(pair.upper->begin_step(step, n));
    for (int k = 0; k < n + ahead; ++k) {
      if (k < n) check(send_one(*pair.lower, Direction::forward, step, k));
      const int back = k - ahead;
      if (back < 0) continue;
      check(take_one(*pair.upper, Direction::forward, step, back));
      check(send_one(*pair.upper, Direction::backward, step, back));
      check(take_one(*pair.lower, Direction::backward, step, back));
    }
    check(pair.lower->end_step());
    check(pair.upper->end_step());
  } catch (const Error& error) {
    return error;
  }
  return {};
}

struct Case {
  const char* name;
  std::vector<Path> paths;
  std::size_t bytes;
  ucx::Wait wait;
};

class UcxPaths : public ::testing::TestWithParam<Case> {};

TEST_P(UcxPaths, EveryMessageComesOnceAndWhole) {
  auto settings = over(GetParam().paths, GetParam().bytes);
  settings.wait = GetParam().wait;
  Pair pair(settings);
  for (std::int64_t step = 1; step <= 3; ++step) run_step(pair, step, 9, 3).throw_if_error();
  EXPECT_EQ(pair.upper->counters().received.load(), 27U);
  EXPECT_EQ(pair.lower->counters().received.load(), 27U);
  EXPECT_EQ(pair.lower->counters().resent.load(), 0U);
  const auto records = pair.lower->take_records();
  EXPECT_EQ(std::count_if(records.begin(), records.end(),
                          [](const MessageRecord& r) {
                            return r.direction == Direction::backward &&
                                   r.arrived_ns <= r.consumed_ns && r.arrived_ns > 0;
                          }),
            27);
}

INSTANTIATE_TEST_SUITE_P(
    All, UcxPaths,
    ::testing::Values(Case{"SharedMemorySmall", {shared_memory}, 8, ucx::Wait::event},
                      Case{"SharedMemoryLarge", {shared_memory}, 3 << 20, ucx::Wait::event},
                      Case{"TcpSmall", {loopback}, 8, ucx::Wait::event},
                      Case{"TcpMiddle", {loopback}, 40000, ucx::Wait::spin},
                      Case{"TcpLarge", {loopback}, 3 << 20, ucx::Wait::event},
                      Case{"TwoRails", {loopback, loopback}, 1 << 20, ucx::Wait::event}),
    [](const auto& test) { return test.param.name; });

TEST(UcxChannel, TheReceiverMayTakeMessagesInAnyOrderThatItsSlotsAllow) {
  Pair pair(over({shared_memory}, 100000));
  pair.lower->begin_step(1, 4).throw_if_error();
  pair.upper->begin_step(1, 4).throw_if_error();
  for (const int k : {2, 0, 3, 1}) {
    send_one(*pair.lower, Direction::forward, 1, k).throw_if_error();
    pair.lower->wait_left(MicrobatchId(k)).throw_if_error();
  }
  for (const int k : {3, 1, 2, 0}) {
    take_one(*pair.upper, Direction::forward, 1, k).throw_if_error();
  }
  pair.lower->end_step().throw_if_error();
}

TEST(UcxChannel, WithoutReceiveSlotsTheSenderIsHeldNotThePoolGrown) {
  auto settings = over({loopback}, 1 << 20);
  settings.send_slots = settings.receive_slots = 2;
  settings.deadline_s = 0.5;
  Pair pair(settings);
  pair.lower->begin_step(1, 5).throw_if_error();
  pair.upper->begin_step(1, 5).throw_if_error();
  for (int k = 0; k < 4; ++k) send_one(*pair.lower, Direction::forward, 1, k).throw_if_error();
  const auto slot = pair.lower->send_slot();  // two there, two on their way
  ASSERT_FALSE(slot.ok());
  EXPECT_EQ(slot.error().code(), ExitCode::peer_lost);
  EXPECT_THAT(slot.error().what(), testing::HasSubstr("link 2 to stage 3"));
  EXPECT_THAT(slot.error().what(), testing::HasSubstr("no send slot"));
  EXPECT_EQ(pair.lower->blocked_sends() >= 1, true);
  for (int k = 0; k < 4; ++k) {
    take_one(*pair.upper, Direction::forward, 1, k).throw_if_error();
  }
  EXPECT_TRUE(pair.lower->send_slot().ok());
}

TEST(UcxChannel, LatencyDelaysMessagesButNotTheSender) {
  faults::Fault fault;
  fault.amount_s = 0.05;
  fault.ways = {faults::Way::forward};
  const faults::Schedule schedule({fault});
  Pair pair(over({shared_memory}, 64), &schedule);
  pair.lower->begin_step(1, 3).throw_if_error();
  pair.upper->begin_step(1, 3).throw_if_error();
  for (int k = 0; k < 3; ++k) send_one(*pair.lower, Direction::forward, 1, k).throw_if_error();
  for (int k = 0; k < 3; ++k) {
    take_one(*pair.upper, Direction::forward, 1, k).throw_if_error();
  }
  pair.lower->end_step().throw_if_error();
  // The slots are done once acknowledged; asking for all of them waits for that.
  for (int k = 0; k < 4; ++k) ASSERT_TRUE(pair.lower->send_slot().ok());
  const auto sent = pair.lower->take_records();
  ASSERT_EQ(sent.size(), 3U);
  for (const auto& record : sent) {
    EXPECT_GE(record.posted_ns - record.handed_ns, 50'000'000);
  }
  // All were handed over before the first was due: nobody waited for it.
  const auto last_handed =
      std::max_element(sent.begin(), sent.end(), [](const auto& a, const auto& b) {
        return a.handed_ns < b.handed_ns;
      })->handed_ns;
  EXPECT_LT(last_handed, sent.front().posted_ns);
}

TEST(UcxChannel, BandwidthSpacesMessagesOut) {
  faults::Fault fault;
  fault.kind = faults::Kind::bandwidth;
  fault.amount_bytes_per_s = 1e6;
  const faults::Schedule schedule({fault});
  Pair pair(over({shared_memory}, 20000), &schedule);
  pair.lower->begin_step(1, 3).throw_if_error();
  pair.upper->begin_step(1, 3).throw_if_error();
  for (int k = 0; k < 3; ++k) send_one(*pair.lower, Direction::forward, 1, k).throw_if_error();
  for (int k = 0; k < 3; ++k) {
    take_one(*pair.upper, Direction::forward, 1, k).throw_if_error();
  }
  for (int k = 0; k < 4; ++k) ASSERT_TRUE(pair.lower->send_slot().ok());
  const auto sent = pair.lower->take_records();
  ASSERT_EQ(sent.size(), 3U);
  const auto [first, last] = std::minmax_element(
      sent.begin(), sent.end(), [](auto& a, auto& b) { return a.posted_ns < b.posted_ns; });
  EXPECT_GE(last->posted_ns - first->handed_ns, 60'000'000);
}

TEST(UcxChannel, ARailThatFailsWithAMessageOnItLosesNothing) {
  faults::Fault cut;
  cut.kind = faults::Kind::rail_down;
  cut.first_step = 1;
  cut.end_step = 3;
  cut.rail = 0;
  cut.after_messages = 4;
  cut.ways = {faults::Way::forward};
  const faults::Schedule schedule({cut});
  auto settings = over({loopback, loopback}, 4 << 20);
  settings.receive_slots = 2;
  Pair pair(settings, &schedule);
  const auto wait_for_count = [](const std::atomic<std::uint64_t>& counter, std::uint64_t wanted) {
    const auto limit = mpi::Deadline::after_s(30);
    while (counter < wanted && !limit.passed()) std::this_thread::yield();
    ASSERT_EQ(counter.load(), wanted);
  };
  pair.lower->begin_step(1, 4).throw_if_error();
  pair.upper->begin_step(1, 4).throw_if_error();
  for (int k = 0; k < 2; ++k) {
    send_one(*pair.lower, Direction::forward, 1, k).throw_if_error();
    wait_for_count(pair.lower->counters().acknowledged, static_cast<std::uint64_t>(k) + 1);
  }
  // Message 2 is on rail 0 (the first of two idle ones) and finds no slot: it is on its way when
  // message 3 has its rail cut.
  send_one(*pair.lower, Direction::forward, 1, 2).throw_if_error();
  wait_for_count(pair.lower->counters().sent, 3);
  send_one(*pair.lower, Direction::forward, 1, 3).throw_if_error();
  for (int k = 0; k < 4; ++k) {
    take_one(*pair.upper, Direction::forward, 1, k).throw_if_error();
  }
  pair.lower->end_step().throw_if_error();
  EXPECT_EQ(pair.lower->counters().rail_failures.load(), 1U);
  EXPECT_EQ(pair.lower->counters().resent.load(), 1U);
  EXPECT_EQ(pair.upper->counters().received.load(), 4U);
  const auto reports = pair.lower->take_reports();
  ASSERT_FALSE(reports.empty());
  EXPECT_THAT(reports.front(), testing::HasSubstr("rail 0"));
  // The fault is over from step 3 on: the rail is opened again and used.
  const auto deadline = mpi::Deadline::after_s(30);
  std::int64_t step = 3;
  while (pair.lower->counters().rail_recoveries.load() == 0 && !deadline.passed()) {
    run_step(pair, step++, 4, 2).throw_if_error();
  }
  EXPECT_EQ(pair.lower->counters().rail_recoveries.load(), 1U);
  bool used = false;
  pair.lower->take_records();
  for (int i = 0; i < 200 && !used; ++i) {
    run_step(pair, step++, 4, 3).throw_if_error();
    for (const auto& record : pair.lower->take_records()) {
      used = used || (record.direction == Direction::forward && record.rail == 0);
    }
  }
  EXPECT_TRUE(used);
}

TEST(UcxChannel, WithoutAnyRailTheLinkIsLostAndNamed) {
  faults::Fault cut;
  cut.kind = faults::Kind::rail_down;
  cut.first_step = 2;
  const faults::Schedule schedule({cut});
  Pair pair(over({loopback}, 1000), &schedule);
  run_step(pair, 1, 4, 2).throw_if_error();
  const Status lost = run_step(pair, 2, 4, 2);
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().code(), ExitCode::peer_lost);
  EXPECT_THAT(lost.error().what(), testing::HasSubstr("link 2 to stage"));
}

TEST(UcxChannel, ADelegateThatDiesIsAnErrorOnBothEnds) {
  for (const Path& path : {loopback, shared_memory}) {
    faults::Fault crash;
    crash.kind = faults::Kind::delegate_crash;
    crash.first_step = 2;
    crash.ways = {faults::Way::forward};
    const faults::Schedule schedule({crash});
    auto settings = over({path}, 1000);
    settings.deadline_s = 2;
    Pair pair(settings, &schedule);
    run_step(pair, 1, 4, 2).throw_if_error();
    ASSERT_FALSE(run_step(pair, 2, 4, 2).ok());
    const Status lost = take_one(*pair.lower, Direction::backward, 2, 3);
    ASSERT_FALSE(lost.ok());
    EXPECT_THAT(lost.error().what(), testing::HasSubstr("delegate died"));
    const Status peer = take_one(*pair.upper, Direction::forward, 2, 0);
    ASSERT_FALSE(peer.ok());
    EXPECT_THAT(peer.error().what(), testing::HasSubstr("link 2 to stage 2"));
  }
}

TEST(UcxChannel, AStalledDelegateIsWaitedFor) {
  faults::Fault stall;
  stall.kind = faults::Kind::delegate_stall;
  stall.amount_s = 0.2;
  stall.first_step = 2;
  stall.end_step = 3;
  const faults::Schedule schedule({stall});
  Pair pair(over({loopback, loopback}, 50000), &schedule);
  for (std::int64_t step = 1; step <= 3; ++step) run_step(pair, step, 5, 2).throw_if_error();
  EXPECT_EQ(pair.upper->counters().received.load(), 15U);
}

// Rails cut and healed at random from either end, stalls, jitter, any size and number of messages:
// all come, once and whole; or, where every rail was cut at once, an error, never a hang.
TEST(UcxChannel, ChaosLosesNothing) {
  const char* scale = std::getenv("ADAPTRA_TEST_SCALE");
  const int runs = 10 * (scale != nullptr ? std::max(1, std::atoi(scale)) : 1);
  int finished = 0;
  std::uint64_t resent = 0, recovered = 0;
  for (int seed = 0; seed < runs; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto pick = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    std::vector<faults::Fault> list;
    for (int i = pick(1, 5); i > 0; --i) {
      faults::Fault fault;
      fault.first_step = pick(1, 6);
      fault.end_step = fault.first_step + pick(1, 3);
      fault.ways = {pick(0, 1) == 0 ? faults::Way::forward : faults::Way::backward};
      switch (pick(0, 3)) {
        case 0:
          fault.kind = faults::Kind::delegate_stall;
          fault.amount_s = 0.001 * pick(1, 60);
          break;
        case 1:
          fault.amount_s = 0.001 * pick(0, 5);
          fault.jitter_s = 0.001 * pick(0, 10);
          break;
        default:
          fault.kind = faults::Kind::rail_down;
          fault.rail = pick(0, 1);
          fault.after_messages = pick(0, 4);
      }
      list.push_back(fault);
    }
    const faults::Schedule schedule(list);
    auto settings = over({loopback, loopback}, static_cast<std::size_t>(1) << pick(3, 22));
    settings.send_slots = pick(4, 6);
    settings.receive_slots = pick(1, 4);  // few: messages are often held on their rail
    Pair pair(settings, &schedule);
    Status status;
    for (std::int64_t step = 1; step <= 8 && status.ok(); ++step) {
      status = run_step(pair, step, pick(1, 9), 2);
      if (pick(0, 3) == 0) {  // time for a rail to come back
        std::this_thread::sleep_for(std::chrono::milliseconds(pick(50, 250)));
      }
    }
    resent += pair.lower->counters().resent + pair.upper->counters().resent;
    recovered += pair.lower->counters().rail_recoveries;
    if (status.ok()) {
      ++finished;
      EXPECT_EQ(pair.upper->counters().received.load(), pair.lower->counters().received.load());
    } else {
      EXPECT_THAT(status.error().what(), testing::HasSubstr("link 2 to stage")) << seed;
      EXPECT_THAT(status.error().what(), testing::HasSubstr("last rail")) << seed;
    }
  }
  EXPECT_GT(finished, runs / 4);  // both rails at once are cut in some runs only
  RecordProperty("finished", finished);
  RecordProperty("resent", static_cast<int>(resent));
  RecordProperty("recovered", static_cast<int>(recovered));
}

TEST(UcxChannel, OpeningAndClosingLeaksNoDescriptors) {
  const auto open_files = [] {
    int count = 0;
    for (int fd = 0; fd < 4096; ++fd) count += fcntl(fd, F_GETFD) != -1 ? 1 : 0;
    return count;
  };
  { Pair warm_up(over({loopback}, 100)); }
  const int before = open_files();
  for (int i = 0; i < 20; ++i) {
    Pair pair(over({loopback, shared_memory}, 100));
    run_step(pair, 1, 2, 1).throw_if_error();
  }
  EXPECT_EQ(open_files(), before);
}

TEST(Checksum, SeesEveryBitAndTheOrder) {
  std::vector<std::byte> bytes(100);
  const auto plain = ucx::checksum_of(bytes);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    bytes[at] ^= std::byte{4};
    EXPECT_NE(ucx::checksum_of(bytes), plain) << at;
    bytes[at] ^= std::byte{4};
  }
  bytes[0] = std::byte{1};
  const auto first = ucx::checksum_of(bytes);
  std::swap(bytes[0], bytes[32]);
  EXPECT_NE(ucx::checksum_of(bytes), first);
  EXPECT_NE(ucx::checksum_of(std::span(bytes).first(99)), ucx::checksum_of(bytes));
}

TEST(Paths, SharedMemoryWithinAHostRailsBetweenHosts) {
  const ucx::Identity here{"a ipc:[1]", {"eth0", "eth1"}};
  const ucx::Identity there{"b ipc:[1]", {"ib0", "ib1", "ib2"}};
  const auto local = choose_paths(here, here, ucx::SameHost::shared_memory);
  ASSERT_EQ(local.size(), 1U);
  EXPECT_EQ(local[0].describe(), "shared memory");
  const auto remote = choose_paths(here, there, ucx::SameHost::shared_memory);
  ASSERT_EQ(remote.size(), 2U);
  EXPECT_EQ(remote[1].describe(), "tcp on eth1");
  EXPECT_EQ(choose_paths(here, here, ucx::SameHost::network).size(), 2U);
  EXPECT_THROW(choose_paths(here, {"b", {}}, ucx::SameHost::network), Error);
  const auto again = ucx::Identity::from_text(there.to_text());
  EXPECT_EQ(again.host, there.host);
  EXPECT_EQ(again.devices, there.devices);
}

}  // namespace
}  // namespace adaptra::transport
