#include "mpi/agree.hpp"

#include <gtest/gtest.h>

namespace adaptra::mpi {
namespace {

TEST(Agree, PassesWhenAllRanksPass) {
  const auto world = Communicator::world(30);
  int ran = 0;
  agree(world, [&] { ++ran; });
  EXPECT_EQ(ran, 1);
}

TEST(Agree, AllRanksLeaveWithTheCulpritsCode) {
  const auto world = Communicator::world(30);
  const int culprit = world.size() - 1;
  try {
    agree(world, [&] {
      if (world.rank() == culprit) throw Error(ExitCode::file, "cannot read x");
    });
    FAIL() << "must throw on every rank";
  } catch (const ElsewhereError& error) {
    EXPECT_NE(world.rank(), culprit);
    EXPECT_EQ(error.code(), ExitCode::file);
    EXPECT_EQ(error.culprit(), culprit);
  } catch (const Error& error) {
    EXPECT_EQ(world.rank(), culprit);
    EXPECT_STREQ(error.what(), "cannot read x");
  }
}

TEST(Agree, TheLowestFailingRankSpeaks) {
  const auto world = Communicator::world(30);
  try {
    agree(world, [&] { throw std::runtime_error("rank " + std::to_string(world.rank())); });
    FAIL();
  } catch (const ElsewhereError& error) {
    EXPECT_GT(world.rank(), 0);
    EXPECT_EQ(error.culprit(), 0);
  } catch (const Error& error) {
    EXPECT_EQ(world.rank(), 0);
    EXPECT_EQ(error.code(), ExitCode::internal);
  }
}

}  // namespace
}  // namespace adaptra::mpi
