#include "mpi/topology.hpp"

#include "core/error.hpp"

#include <gtest/gtest.h>

#include <set>

namespace adaptra::mpi {
namespace {

TEST(Layout, RanksAndCoordinatesAreInverse) {
  for (const auto& order : {std::vector<std::string>{"tensor", "data", "pipeline"},
                            std::vector<std::string>{"pipeline", "data", "tensor"}}) {
    const Layout layout{2, 3, 2, order};
    std::set<std::tuple<int, int, int>> seen;
    for (int r = 0; r < layout.ranks(); ++r) {
      const auto at = coordinates_of(layout, Rank(r));
      EXPECT_EQ(rank_of(layout, at), Rank(r));
      seen.insert({at.data, at.pipeline, at.tensor});
    }
    EXPECT_EQ(seen.size(), 12U);
  }
}

TEST(Layout, TensorIsFastestThenDataByDefault) {
  const Layout layout{2, 3, 2};
  EXPECT_EQ(coordinates_of(layout, Rank(1)), (Coordinates{0, 0, 1}));
  EXPECT_EQ(coordinates_of(layout, Rank(2)), (Coordinates{1, 0, 0}));
  EXPECT_EQ(coordinates_of(layout, Rank(4)), (Coordinates{0, 1, 0}));
}

TEST(Topology, KnowsNeighboursAndPeers) {
  const auto world = Communicator::world(30);
  const Topology topology(world, {1, world.size(), 1});
  EXPECT_EQ(topology.stage(), StageId(world.rank()));
  EXPECT_EQ(topology.pipeline().size(), world.size());
  EXPECT_EQ(topology.data().size(), 1);
  ASSERT_EQ(topology.peers().size(), static_cast<std::size_t>(world.size()));
  EXPECT_EQ(topology.peers()[0].local_rank, 0);
  EXPECT_NE(topology.describe(Rank(0)).find("stage 0"), std::string::npos);
}

TEST(Topology, AWrongNumberOfRanksIsExplained) {
  const auto world = Communicator::world(30);
  try {
    const Topology topology(world, {1, world.size() + 1, 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find("mpirun -n"), std::string::npos);
  }
}

}  // namespace
}  // namespace adaptra::mpi
