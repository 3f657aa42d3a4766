#include "driver/run_folder.hpp"

#include "core/error.hpp"
#include "support/command.hpp"

#include <gtest/gtest.h>

namespace adaptra::driver {
namespace {

using testing_support::read_text;
using testing_support::TemporaryFolder;

TEST(RunFolder, OverwriteRemovesOnlyWhatARunWrites) {
  const TemporaryFolder folder;
  folder.write("used_config.toml", "x");
  folder.write("log.jsonl", "x");
  folder.write("checkpoints/step_1.h5", "x");
  folder.write("notes.txt", "mine");
  EXPECT_THROW(RunFolder::prepare(folder.path(), ExistingRun::refuse), Error);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "log.jsonl"));
  RunFolder::prepare(folder.path(), ExistingRun::overwrite);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "log.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "checkpoints"));
  EXPECT_EQ(read_text(folder.path() / "notes.txt"), "mine");
  RunFolder::prepare(folder.path(), ExistingRun::refuse);
}

TEST(RunFolder, AFileInTheWayIsAnError) {
  const TemporaryFolder folder;
  const auto file = folder.write("run", "x");
  try {
    RunFolder::prepare(file, ExistingRun::refuse);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
  }
}

TEST(StepLog, WritesOneObjectPerLine) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "log.jsonl";
  StepLog(path).write({{"step", 1}, {"loss", 0.5}});
  StepLog(path).write({{"step", 2}});
  EXPECT_EQ(read_text(path), "{\"step\":1,\"loss\":0.5}\n{\"step\":2}\n");
}

TEST(StepLog, AFullDiskIsAnError) {
  StepLog log("/dev/full");
  try {
    log.write({{"step", 1}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
  }
}

}  // namespace
}  // namespace adaptra::driver
