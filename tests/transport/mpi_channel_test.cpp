#include "transport/mpi_channel.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace adaptra::transport {
namespace {

// Ranks 0 and 1 hold the two ends of link 0; others look on.
std::unique_ptr<Channel> end_of_link(const mpi::Communicator& world, std::size_t bytes,
                                     int receive_slots, double deadline_s = 30) {
  MpiChannelSettings settings;
  settings.sends = world.rank() == 0 ? Direction::forward : Direction::backward;
  settings.peer = 1 - world.rank();
  settings.message_bytes = bytes;
  settings.receive_slots = receive_slots;
  settings.deadline_s = deadline_s;
  return make_mpi_channel(world, settings);
}

std::byte mark(int rank, std::int64_t step, int microbatch) {
  return static_cast<std::byte>(rank * 131 + static_cast<int>(step) * 17 + microbatch);
}

Slot wait_for(Channel& channel, int microbatch) {
  const auto deadline = mpi::Deadline::after_s(30);
  while (!deadline.passed()) {
    auto slot = channel.poll_receive(MicrobatchId(microbatch));
    slot.status().throw_if_error();
    if (slot->has_value()) return **slot;
  }
  throw Error(ExitCode::peer_lost, "nothing came");
}

// Sizes below and above the eager limit of MPI.
class MpiChannelSizes : public ::testing::TestWithParam<std::size_t> {};

TEST_P(MpiChannelSizes, EveryMessageComesOnceAndWhole) {
  const auto world = mpi::Communicator::world(30);
  constexpr int n = 9;
  if (world.rank() < 2) {
    const auto channel = end_of_link(world, GetParam(), 3);
    for (std::int64_t step = 1; step <= 3; ++step) {
      channel->begin_step(step, n).throw_if_error();
      for (int k = 0; k < n; ++k) {
        auto slot = channel->send_slot();
        slot.status().throw_if_error();
        std::fill(slot->memory.begin(), slot->memory.end(), mark(world.rank(), step, k));
        channel->send(MicrobatchId(k), *slot).throw_if_error();
        const Slot came = wait_for(*channel, k);
        const auto expected = mark(1 - world.rank(), step, k);
        EXPECT_TRUE(std::all_of(came.memory.begin(), came.memory.end(),
                                [&](std::byte b) { return b == expected; }))
            << step << " " << k;
        channel->release(came);
      }
      channel->end_step().throw_if_error();
    }
  }
  world.barrier();
}

TEST_P(MpiChannelSizes, TheDirectRuleWaitsUntilTheMessageHasLeft) {
  const auto world = mpi::Communicator::world(30);
  if (world.rank() < 2) {
    const auto channel = end_of_link(world, GetParam(), 2);
    channel->begin_step(1, 4).throw_if_error();
    for (int k = 0; k < 4; ++k) {
      auto slot = channel->send_slot();
      slot.status().throw_if_error();
      channel->send(MicrobatchId(k), *slot).throw_if_error();
      channel->wait_left(MicrobatchId(k)).throw_if_error();
      channel->release(wait_for(*channel, k));
    }
    channel->end_step().throw_if_error();
  }
  world.barrier();
}

INSTANTIATE_TEST_SUITE_P(Bytes, MpiChannelSizes, ::testing::Values(8, 4096, 3 << 20));

TEST(MpiChannel, ASilentPeerIsAnErrorThatNamesTheLink) {
  const auto world = mpi::Communicator::world(30);
  if (world.rank() == 0) {
    const auto channel = end_of_link(world, std::size_t{1} << 22, 2, 0.3);
    channel->begin_step(1, 3).throw_if_error();
    Status status;
    for (int k = 0; k < 3 && status.ok(); ++k) {  // two slots, nobody receives
      auto slot = channel->send_slot();
      status = slot.status();
      if (slot.ok()) status = channel->send(MicrobatchId(k), *slot);
    }
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), ExitCode::peer_lost);
    EXPECT_THAT(status.error().what(), testing::HasSubstr("link 0 to stage 1"));
    EXPECT_THAT(status.error().what(), testing::HasSubstr("no send slot"));
    world.barrier();
    // The late peer takes the messages after all, so that the next test finds a clean slate.
    channel->end_step().throw_if_error();
  } else {
    world.barrier();
    if (world.rank() == 1) {
      const auto channel = end_of_link(world, std::size_t{1} << 22, 2);
      channel->begin_step(1, 2).throw_if_error();
      for (int k = 0; k < 2; ++k) channel->release(wait_for(*channel, k));
    }
  }
  world.barrier();
}

}  // namespace
}  // namespace adaptra::transport
