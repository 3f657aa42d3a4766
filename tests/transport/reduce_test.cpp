#include "transport/reduce.hpp"

#include <gtest/gtest.h>

namespace adaptra::transport {
namespace {

float value(int rank, std::size_t i) {
  return 1.0F / (3.0F + static_cast<float>(rank)) * static_cast<float>(i % 97) +
         static_cast<float>(rank) * 1e-4F;
}

TEST(Reducer, SumsInTheOrderOfTheRanksHoweverItIsCut) {
  const auto world = mpi::Communicator::world(30);
  for (const std::size_t count : {0UL, 1UL, 2UL, 5UL, 1000UL, 4097UL}) {
    std::vector<float> expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      expected[i] = value(0, i);
      for (int r = 1; r < world.size(); ++r) expected[i] += value(r, i);
    }
    for (const std::size_t chunk : {1UL, 7UL, 1024UL, 100000UL}) {
      if (chunk < 7 && count > 100) continue;
      std::vector<float> mine(count);
      for (std::size_t i = 0; i < count; ++i) mine[i] = value(world.rank(), i);
      Reducer reducer(world, chunk);
      reducer.sum(mine).throw_if_error();
      EXPECT_EQ(mine, expected) << count << " in chunks of " << chunk;
    }
  }
}

TEST(Exchange, GivesEachTheOthersValues) {
  const auto world = mpi::Communicator::world(30);
  if (world.rank() < 2) {
    const int peer = 1 - world.rank();
    const std::vector<float> mine(1000, static_cast<float>(world.rank() + 1));
    std::vector<float> theirs(1000);
    exchange(world, peer, mine, theirs).throw_if_error();
    EXPECT_EQ(theirs, std::vector<float>(1000, static_cast<float>(peer + 1)));
  }
  world.barrier();
}

}  // namespace
}  // namespace adaptra::transport
