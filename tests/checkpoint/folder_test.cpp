#include "checkpoint/folder.hpp"

#include "support/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using namespace adaptra;
using testing::ElementsAre;

std::vector<std::int64_t> steps_in(const std::filesystem::path& folder) {
  std::vector<std::int64_t> steps;
  for (const auto& entry : checkpoint::list_folder(folder)) steps.push_back(entry.step);
  return steps;
}

TEST(CheckpointFolder, NamesAndStepsAgree) {
  EXPECT_EQ(checkpoint::file_name(100), "step_00000100.h5");
  EXPECT_EQ(checkpoint::step_of("step_00000100.h5"), 100);
  EXPECT_EQ(checkpoint::step_of(checkpoint::file_name(1234567890123)), 1234567890123);
  for (const char* name : {"step_100.h5", "step_00000100.h5.tmp", "latest", "step_.h5",
                           "step_0000010x.h5", "step_-0000100.h5", "astep_00000100.h5"}) {
    EXPECT_EQ(checkpoint::step_of(name), std::nullopt) << name;
  }
}

TEST(CheckpointFolder, KeepsTheLastAndEveryMth) {
  const testing_support::TemporaryFolder folder;
  for (int step = 10; step <= 100; step += 10) folder.write(checkpoint::file_name(step), "x");
  folder.write("mine.h5", "x");
  const auto lines = checkpoint::tidy(folder.path(), 100, {2, 40});
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(100, 90, 80, 40));
  EXPECT_EQ(lines.size(), 6u);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "mine.h5"));
}

TEST(CheckpointFolder, LaterStepsOfALeftHistoryAreSetAside) {
  const testing_support::TemporaryFolder folder;
  for (int step : {10, 20, 30}) folder.write(checkpoint::file_name(step), "x");
  checkpoint::tidy(folder.path(), 20, {3, 0});
  EXPECT_THAT(steps_in(folder.path()), ElementsAre(20, 10));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "step_00000030.h5.superseded"));
}

TEST(CheckpointFolder, OnlyItsOwnLeftoversGo) {
  const testing_support::TemporaryFolder folder;
  folder.write("step_00000030.h5.tmp", "x");
  folder.write("latest.tmp", "x");
  folder.write("notes.tmp", "x");
  folder.write("step_00000020.h5", "x");
  checkpoint::remove_leftovers(folder.path());
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "step_00000030.h5.tmp"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "latest.tmp"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "notes.tmp"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "step_00000020.h5"));
}

TEST(CheckpointFolder, NoFolderIsNoCheckpoint) {
  EXPECT_TRUE(checkpoint::list_folder("/nowhere/at/all").empty());
}

}  // namespace
