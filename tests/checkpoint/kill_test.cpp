// Saves that are killed at random moments: what is found afterwards is the newest complete
// checkpoint, with the right bits; and saves onto a full disk.

#include "checkpoint/folder.hpp"
#include "support/command.hpp"
#include "support/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

namespace {

using namespace adaptra;
using testing_support::mpirun;
using testing_support::run_command;

const std::string save_loop = std::string(ADAPTRA_BIN_DIR) + "/../tests/bin/checkpoint_save_loop";

std::int64_t last_number(const std::string& text, const std::string& word) {
  const auto at = text.rfind(word);
  return at == std::string::npos ? 0 : std::atoll(text.c_str() + at + word.size());
}

// Runs the loop, kills it `delay_ms` after its first save: one rank, or everything at once.
std::string run_and_kill(const std::filesystem::path& folder, const std::string& mode, int delay_ms,
                         bool one_rank) {
  const std::string victims = one_rank ? "pgrep -P $launcher | head -1" : "pgrep -P $launcher";
  const auto result =
      run_command(mpirun(2) + " " + save_loop + " " + folder.string() + " 1000000 " + mode + " > " +
                      folder.string() + ".out 2>/dev/null &\n" +
                      "launcher=$!\n"
                      "for i in $(seq 600); do grep -q saved " +
                      folder.string() +
                      ".out && break; sleep 0.05; done\n"
                      "sleep " +
                      std::to_string(delay_ms / 1000.0) +
                      "\n"
                      "kill -9 $(" +
                      victims +
                      ")\n"
                      "wait $launcher\n"
                      "exit 0",
                  100);
  EXPECT_EQ(result.code, 0) << result.err;
  return testing_support::read_text(folder.string() + ".out");
}

class Kills : public testing::TestWithParam<const char*> {};

TEST_P(Kills, TheNewestCompleteCheckpointSurvives) {
  const testing_support::TemporaryFolder temporary;
  const auto folder = temporary.path() / "checkpoints";
  std::mt19937 random(20261201);
  for (int round = 0; round < 10; ++round) {
    const int delay_ms = static_cast<int>(random() % 400);
    const auto out = run_and_kill(folder, GetParam(), delay_ms, round % 2 == 0);
    const auto saved = last_number(out, "saved ");
    ASSERT_GT(saved, 0) << out;
    // Goes on from there; exit code 9 would be wrong bits.
    const auto again =
        run_command(save_loop + " " + folder.string() + " 0 " + GetParam() + " 2>&1");
    ASSERT_EQ(again.code, 0) << again.out;
    const auto resumed = last_number(again.out, "resumed at ");
    // The last save that was reported, or one whose report the kill swallowed.
    EXPECT_GE(resumed, saved) << "round " << round;
    EXPECT_LE(resumed, saved + 2) << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Kills, testing::Values("background", "collective"));

TEST(FullDisk, FailsBeforeOrWhileWritingAndKeepsWhatIsThere) {
  const testing_support::TemporaryFolder temporary;
  const auto mount = temporary.path() / "small";
  std::filesystem::create_directory(mount);
  // A mount of one's own needs either root or user namespaces.
  const std::string inside =
      "mount -t tmpfs -o size=26m none " + mount.string() + " || exit 77\n" + save_loop + " " +
      mount.string() + "/c 1 background || exit 1\n" +  // about 11 MiB
      "head -c 9M /dev/zero > " + mount.string() + "/other\n" + save_loop + " " + mount.string() +
      "/c 2 background > " + temporary.path().string() + "/second 2>&1; code=$?\n" + save_loop +
      " " + mount.string() + "/c 0 background > " + temporary.path().string() +
      "/third 2>&1 || exit 2\n" + "ls " + mount.string() + "/c; exit $code";
  const auto script = temporary.write("script.sh", inside);
  const auto result = run_command("unshare -m bash " + script + " || unshare -rm bash " + script);
  if (result.code == 77) GTEST_SKIP() << "a file system of its own cannot be mounted here";
  EXPECT_EQ(result.code, 6) << result.err;
  EXPECT_THAT(testing_support::read_text(temporary.path() / "second"),
              testing::HasSubstr("are free, a checkpoint needs"));
  EXPECT_THAT(testing_support::read_text(temporary.path() / "third"),
              testing::HasSubstr("resumed at 1"));
  EXPECT_THAT(result.out, testing::Not(testing::HasSubstr(".tmp")));
}

TEST(ManyRanks, ThirtyOneSaveAndLoad) {
  const testing_support::TemporaryFolder temporary;
  const auto folder = (temporary.path() / "c").string();
  for (const char* mode : {"background", "collective"}) {
    const std::string steps = mode[0] == 'b' ? "2" : "4";
    const auto result =
        run_command(mpirun(31) + " " + save_loop + " " + folder + " " + steps + " " + mode, 200);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, testing::HasSubstr("saved " + steps));
  }
  // What 31 ranks wrote, one reads.
  EXPECT_EQ(run_command(save_loop + " " + folder + " 4 background").code, 0);
}

}  // namespace
