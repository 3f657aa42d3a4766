#include "checkpoint/writer.hpp"

#include "checkpoint/file_index.hpp"
#include "checkpoint/fixture.hpp"
#include "core/error.hpp"
#include "mpi/agree.hpp"
#include "support/command.hpp"
#include "support/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace {

using namespace adaptra;
using checkpoint::Method;
using checkpoint::Timing;
using testing_support::FakeModel;
using testing_support::state_at;

/// A folder that all ranks know, removed by rank 0 when all are done with it.
class SharedFolder {
 public:
  explicit SharedFolder(const mpi::Communicator& world) : world_(world) {
    path_ = world.broadcast(world.rank() == 0 ? own_.path().string() : "", 0);
  }
  ~SharedFolder() { world_.barrier(); }
  std::filesystem::path path() const { return path_; }

 private:
  const mpi::Communicator& world_;
  testing_support::TemporaryFolder own_;
  std::string path_;
};

struct Case {
  Method method;
  Timing timing;
};

class CheckpointMethods : public testing::TestWithParam<Case> {};

TEST_P(CheckpointMethods, WhatIsSavedComesBackOnAnotherLayout) {
  const auto world = mpi::Communicator::world(60);
  const SharedFolder folder(world);
  checkpoint::Settings settings;
  settings.method = GetParam().method;
  settings.timing = GetParam().timing;
  FakeModel model(world.rank(), world.size());
  model.fill(7);
  checkpoint::Writer writer(world, folder.path() / "checkpoints", settings);
  writer.start(7, model.parts(), state_at(7));
  if (settings.method == Method::posix && settings.timing == Timing::background) model.clear();
  EXPECT_TRUE(writer.running());
  const auto report = writer.finish();
  ASSERT_TRUE(report);
  EXPECT_FALSE(writer.running());
  EXPECT_EQ(report->file.filename(), "step_00000007.h5");
  EXPECT_EQ(report->bytes, std::filesystem::file_size(report->file));
  EXPECT_TRUE(checkpoint::verify(report->file).empty());
  EXPECT_EQ(testing_support::read_text(folder.path() / "checkpoints/latest"), "step_00000007.h5\n");

  // All on every rank; then split the other way round.
  for (const int stages : {1, world.size(), world.size() + 1}) {
    FakeModel other(stages - 1 - world.rank() % stages, stages);
    const auto loaded = checkpoint::load(world, report->file, other.parts());
    EXPECT_EQ(loaded.state, state_at(7));
    EXPECT_TRUE(loaded.absent_groups.empty());
    EXPECT_EQ(other.difference(7), "");
  }
}

INSTANTIATE_TEST_SUITE_P(All, CheckpointMethods,
                         testing::Values(Case{Method::posix, Timing::background},
                                         Case{Method::posix, Timing::blocking},
                                         Case{Method::hdf5_independent, Timing::blocking},
                                         Case{Method::hdf5_collective, Timing::blocking}));

TEST(CheckpointWriter, BackgroundSaveIsCompletedByPolling) {
  const auto world = mpi::Communicator::world(60);
  const SharedFolder folder(world);
  FakeModel model(world.rank(), world.size());
  checkpoint::Writer writer(world, folder.path(), {});
  EXPECT_FALSE(writer.poll());
  model.fill(1);
  writer.start(1, model.parts(), state_at(1));
  std::optional<checkpoint::Report> report;
  for (int i = 0; i < 10'000 && !report; ++i) {
    report = writer.poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_TRUE(report);
  // One that is still running is completed by the next.
  model.fill(2);
  writer.start(2, model.parts(), state_at(2));
  model.fill(3);
  writer.start(3, model.parts(), state_at(3));
  ASSERT_TRUE(writer.finish());
  for (const int step : {1, 2, 3}) {
    EXPECT_TRUE(checkpoint::verify(folder.path() / checkpoint::file_name(step)).empty()) << step;
  }
}

TEST(CheckpointWriter, ReplicasShareTheWriting) {
  const auto world = mpi::Communicator::world(60);
  const SharedFolder folder(world);
  FakeModel model(0, 1);  // every rank holds everything
  model.fill(5);
  const auto report = checkpoint::save(world, folder.path(), 5, model.parts(), state_at(5), {});
  FakeModel again(0, 1);
  checkpoint::load(world, report.file, again.parts());
  EXPECT_EQ(again.difference(5), "");
}

TEST(CheckpointWriter, OldFilesGoOnlyAfterTheNewOneIsGood) {
  const auto world = mpi::Communicator::world(60);
  const SharedFolder folder(world);
  FakeModel model(world.rank(), world.size());
  checkpoint::Settings settings;
  settings.retention = {2, 4};
  for (std::int64_t step = 1; step <= 7; ++step) {
    model.fill(step);
    checkpoint::save(world, folder.path(), step, model.parts(), state_at(step), settings);
  }
  std::vector<std::int64_t> steps;
  for (const auto& entry : checkpoint::list_folder(folder.path())) steps.push_back(entry.step);
  EXPECT_THAT(steps, testing::ElementsAre(7, 6, 4));
}

TEST(CheckpointWriter, RanksThatDisagreeOnAShapeFailTogether) {
  const auto world = mpi::Communicator::world(60);
  if (world.size() == 1) GTEST_SKIP() << "needs two ranks";
  const SharedFolder folder(world);
  FakeModel model(0, 1, world.rank() == 1 ? 38 : 37);
  EXPECT_THROW(checkpoint::save(world, folder.path() / "c", 1, model.parts(), state_at(1), {}),
               Error);
  EXPECT_TRUE(checkpoint::list_folder(folder.path() / "c").empty());
}

TEST(CheckpointWriter, AFolderThatCannotBeMadeFailsOnAllRanks) {
  const auto world = mpi::Communicator::world(60);
  const SharedFolder folder(world);
  if (world.rank() == 0) std::ofstream(folder.path() / "file") << "x";
  world.barrier();
  FakeModel model(world.rank(), world.size());
  model.fill(1);
  try {
    checkpoint::save(world, folder.path() / "file", 1, model.parts(), state_at(1), {});
    ADD_FAILURE() << "saved into a file";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
  }
}

TEST(CheckpointWriter, OpensInH5py) {
  const auto world = mpi::Communicator::world(60);
  const SharedFolder folder(world);
  FakeModel model(world.rank(), world.size());
  model.fill(3);
  const auto report = checkpoint::save(world, folder.path(), 3, model.parts(), state_at(3), {});
  if (world.rank() != 0) return;
  if (testing_support::run_command("python3 -c 'import h5py'").code != 0) {
    GTEST_SKIP() << "python3 has no h5py";
  }
  const auto index = checkpoint::read_index(report.file);
  const auto* tensor = index.find("adam_m", "h.2.attn.c_attn.weight");
  ASSERT_NE(tensor, nullptr);
  const auto result = testing_support::run_command(
      "python3 -c 'import h5py, zlib, sys\n"
      "f = h5py.File(sys.argv[1], \"r\")\n"
      "d = f[\"adam_m/h.2.attn.c_attn.weight\"]\n"
      "print(f[\"state/step\"][()], f[\"state/texts/deck\"][()].decode().strip(), d.shape, "
      "d.dtype,\n"
      "      zlib.crc32(d[()].tobytes()))' " +
      report.file.string());
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "3 training.steps = 100 (37, 33) float32 " + std::to_string(tensor->sum) + "\n");
}

}  // namespace
