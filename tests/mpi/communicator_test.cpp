#include "mpi/communicator.hpp"

#include <gtest/gtest.h>

namespace adaptra::mpi {
namespace {

TEST(Communicator, GathersTextAndNumbersOfAnyLength) {
  const auto world = Communicator::world(30);
  const auto r = static_cast<std::size_t>(world.rank());
  const auto texts = world.gather_all(std::string(r, 'x'));
  const auto numbers = world.gather_all(std::vector<double>(r + 1, 0.5 * world.rank()));
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(world.size()));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(texts[i], std::string(i, 'x'));
    EXPECT_EQ(numbers[i], std::vector<double>(i + 1, 0.5 * static_cast<double>(i)));
  }
}

TEST(Communicator, BroadcastsAndFindsTheMaximum) {
  const auto world = Communicator::world(30);
  const int root = world.size() - 1;
  EXPECT_EQ(world.broadcast(world.rank() == root ? "plan" : "", root), "plan");
  EXPECT_EQ(world.maximum(10 - world.rank()), 10);
}

TEST(Communicator, AWaitThatCannotEndIsAnErrorNotAHang) {
  if (Communicator::world(30).size() < 2) GTEST_SKIP() << "needs 2 ranks";
  const auto impatient = Communicator::world(0.2);
  // Only rank 0 enters; it must come back with an error that says what it waited for.
  if (impatient.rank() == 0) {
    try {
      impatient.barrier();
      ADD_FAILURE() << "the barrier cannot have ended";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::peer_lost);
      EXPECT_NE(std::string(error.what()).find("barrier"), std::string::npos);
    }
  }
  const auto world = Communicator::world(30);
  world.barrier();
  if (impatient.rank() != 0) impatient.barrier();  // the late ones find it ended
}

}  // namespace
}  // namespace adaptra::mpi
