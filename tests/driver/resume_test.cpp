// A run that is stopped and goes on is the run that was never stopped: to the last bit.

#include "train_fixture.hpp"

#include <gmock/gmock.h>

namespace adaptra::driver {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::mpirun;
using testing_support::read_text;
using testing_support::run_command;

class Resume : public TrainFixture {
 protected:
  /// loss and norm by step (the last one written wins), and the final weights.
  std::map<std::int64_t, std::string> steps_of(const std::string& name) const {
    std::map<std::int64_t, std::string> steps;
    for (const auto& line : log(name)) {
      if (line.contains("loss")) {
        steps[line["step"]] =
            line["loss"].dump() + " " + line["grad_norm"].dump() + " " + line["lr"].dump();
      }
      if (line.contains("weights")) steps[1000000] = line["weights"].dump();
    }
    return steps;
  }
};

TEST_F(Resume, NStraightIsKThenResumeThenTheRestOnAnotherLayout) {
  const std::string settings =
      "checkpoint.every_steps=3 checkpoint.asynchronous=false model.dropout=0.1";
  ASSERT_EQ(train(1, "straight", "training.steps=8 model.dropout=0.1").code, 0);
  const auto first = train(4, "cut", settings + " training.steps=8 --max-time 00:00:01");
  ASSERT_EQ(first.code, 10) << first.out << first.err;  // the reserve alone is longer: one step
  EXPECT_THAT(first.out, HasSubstr("stopped after step 1 because time is nearly up"));
  const auto second = train(2, "cut", settings + " training.steps=8 --resume");
  ASSERT_EQ(second.code, 0) << second.out << second.err;
  EXPECT_THAT(second.out, AllOf(HasSubstr("resuming from"), HasSubstr("step 1"),
                                HasSubstr("parallel.pipeline = 2 (was 4)")));
  EXPECT_EQ(steps_of("cut"), steps_of("straight"));
  // At the last step there is nothing to do, and nothing is written again.
  const auto file = output("cut") / "checkpoints" / "step_00000008.h5";
  const auto written = std::filesystem::last_write_time(file);
  const auto third = train(3, "cut", settings + " training.steps=8 --resume");
  EXPECT_EQ(third.code, 0) << third.err;
  EXPECT_EQ(std::filesystem::last_write_time(file), written);
}

TEST_F(Resume, AfterACrashTheNewestGoodCheckpointIsTaken) {
  ASSERT_EQ(train(1, "straight", "training.steps=9").code, 0);
  ASSERT_EQ(
      train(3, "cut", "training.steps=6 training.decay_steps=9 checkpoint.every_steps=2").code, 0);
  // the newest is damaged
  const auto newest = output("cut") / "checkpoints" / "step_00000006.h5";
  ASSERT_TRUE(std::filesystem::exists(newest));
  std::filesystem::resize_file(newest, std::filesystem::file_size(newest) / 2);
  const auto run = train(
      2, "cut", "training.steps=9 training.decay_steps=9 checkpoint.every_steps=2 --resume=auto");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("step_00000004.h5"));
  EXPECT_THAT(run.err, AllOf(HasSubstr("passed over"), HasSubstr("step_00000006.h5")));
  EXPECT_EQ(steps_of("cut"), steps_of("straight"));
}

TEST_F(Resume, WithoutACheckpointItStartsFromTheBeginning) {
  const auto run = train(2, "run", "training.steps=3 --resume");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("starting from the beginning"));
}

TEST_F(Resume, ABadFileThatIsNamedIsExitSix) {
  const auto file = folder_.write("nonsense.h5", "this is no checkpoint");
  const auto run = train(2, "run", "training.steps=3 --resume=" + file);
  EXPECT_EQ(run.code, 6) << run.out << run.err;
  EXPECT_THAT(run.err, HasSubstr("nonsense.h5"));
}

TEST_F(Resume, AnotherShapeOfModelIsRefused) {
  ASSERT_EQ(train(2, "run", "training.steps=2 checkpoint.every_steps=2").code, 0);
  const auto run = train(2, "run", "training.steps=4 model.layers=6 --resume");
  EXPECT_EQ(run.code, 2) << run.out << run.err;
  EXPECT_THAT(run.err, HasSubstr("model.layers is 5 there and 6 in the deck"));
}

TEST_F(Resume, ControlFilesSaveAndStop) {
  const auto out = output("run");
  const auto run = run_command(
      mpirun(2) + " " + program() + " " + deck() +
          " training.steps=100000 parallel.pipeline=2 --output-dir " + out.string() +
          " & mpi=$!\nfor i in $(seq 300); do grep -q '\"step\":2' " +
          (out / "log.jsonl").string() + " 2>/dev/null && break; sleep 0.1; done\nmkdir -p " +
          (out / "control").string() + "; touch " + (out / "control/save").string() +
          "\nfor i in $(seq 300); do ls " + (out / "checkpoints").string() +
          " 2>/dev/null | grep -q '^step_.*h5$' && break; sleep 0.1; done\ntouch " +
          (out / "control/stop").string() + "\nwait $mpi\n",
      60);
  EXPECT_EQ(run.code, 11) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("checkpoint "), HasSubstr("stopped after step")));
}

}  // namespace
}  // namespace adaptra::driver
