// What a user sees when something is wrong: exit code, last words, and that every rank is gone.

#include "train_fixture.hpp"

#include <gmock/gmock.h>

namespace adaptra::driver {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_support::CommandResult;
using testing_support::mpirun;
using testing_support::read_text;
using testing_support::run_command;

class Failure : public TrainFixture {
 protected:
  /// Starts four ranks in the background and acts on them once step 2 is logged. `act` sees $mpi,
  /// the launcher's pid, and $rank2, that of rank 2.
  CommandResult disturb(const std::string& act, const std::string& overrides = "") const {
    const auto out = output("run");
    return run_command(
        mpirun(4) + " " + program() + " " + deck() + " training.steps=100000 parallel.pipeline=4 " +
            overrides + " --output-dir " + out.string() + " & mpi=$!\n" +
            "for i in $(seq 300); do grep -q '\"step\":2' " + (out / "log.jsonl").string() +
            " 2>/dev/null && break; sleep 0.1; done\n" + "rank2=$(pgrep -P $mpi | sed -n 3p)\n" +
            act + "\nwait $mpi\n",
        60);
  }
};

TEST_F(Failure, AKilledRankTakesAllDownAndIsNamed) {
  const auto run = disturb("kill -9 $rank2");
  EXPECT_NE(run.code, 0);
  EXPECT_NE(run.code, 124) << "hung";
  EXPECT_THAT(run.err, AllOf(HasSubstr("error: rank 2 ("), HasSubstr("stage 2"), HasSubstr("died"),
                             HasSubstr("step ")));
  EXPECT_THAT(read_text(output("run") / "post_mortem.txt"), HasSubstr("rank 2 ("));
}

TEST_F(Failure, AStuckRankIsNoticedWithinTheDeadline) {
  const auto run =
      disturb("kill -STOP $rank2; sleep 6; kill -CONT $rank2", "run.peer_deadline_s=2");
  EXPECT_EQ(run.code, 4) << run.err;
  EXPECT_THAT(run.err, AllOf(HasSubstr("error: rank "), HasSubstr("within 2 s")));
}

TEST_F(Failure, TermStopsAtAStepBorder) {
  const auto run = disturb("kill -TERM $rank2");
  EXPECT_EQ(run.code, 11) << run.err;
  EXPECT_THAT(run.out, HasSubstr("stopped after step"));
}

TEST_F(Failure, NumbersThatAreNotFiniteStopBeforeTheWeightsAreTouched) {
  const auto run = train(
      3, "run", "training.learning_rate=1000 training.clip_norm=0 training.adam_epsilon=1e-20");
  EXPECT_EQ(run.code, 5) << run.out << run.err;
  EXPECT_THAT(run.err, AllOf(HasSubstr("is not finite"), HasSubstr("step "),
                             HasSubstr("weights are those of step")));
  EXPECT_THAT(read_text(output("run") / "post_mortem.txt"), HasSubstr("is not finite"));
}

TEST_F(Failure, SkippingStepsThatAreNotFiniteGoesOn) {
  const auto run = train(2, "run",
                         "training.steps=12 training.learning_rate=1000 training.clip_norm=0 "
                         "training.adam_epsilon=1e-20 training.on_nonfinite=skip_step");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("the step is skipped"));
}

TEST_F(Failure, ABadTokenNamesFileAndOffset) {
  std::string tokens;
  for (int i = 0; i < 3000; ++i) tokens += std::string{static_cast<char>(i % 200), 0};
  tokens[5001] = 7;  // token 2500 is above the vocabulary
  const auto file = folder_.write("bad.bin", tokens);
  const auto run = train(3, "run", "data.kind=nanogpt data.train=" + file);
  EXPECT_EQ(run.code, 6);
  EXPECT_THAT(run.err, AllOf(HasSubstr("bad.bin: token"), HasSubstr("at byte 5000")));
}

TEST_F(Failure, ARunIsNotOverwrittenUnlessAsked) {
  ASSERT_EQ(train(2, "run", "training.steps=2").code, 0);
  const auto before = read_text(output("run") / "log.jsonl");
  const auto again = train(2, "run", "training.steps=2");
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, AllOf(HasSubstr("already holds a run"), HasSubstr("--overwrite")));
  EXPECT_EQ(read_text(output("run") / "log.jsonl"), before);
  EXPECT_EQ(train(2, "run", "training.steps=2 --overwrite").code, 0);
}

TEST_F(Failure, UsedConfigIsADeckThatGivesTheSameRun) {
  ASSERT_EQ(train(2, "run", "training.steps=3 model.dropout=0.1").code, 0);
  const auto again = run_command(mpirun(2) + " " + program() + " " +
                                 (output("run") / "used_config.toml").string() + " --output-dir " +
                                 output("again").string());
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(bits("run"), bits("again"));
}

TEST_F(Failure, RanksThatDoNotFitAreExplainedOnce) {
  const auto run = train(3, "run", "parallel.data=2");
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("= 6 ranks"), HasSubstr("started 3"), HasSubstr("mpirun -n 6")));
  EXPECT_FALSE(std::filesystem::exists(output("run")));
}

TEST_F(Failure, AWrongDeckIsReportedOnceWithAllProblems) {
  const auto run = train(3, "run", "model.layer=3 training.steps=-1");
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, AllOf(HasSubstr("model.layer"), HasSubstr("training.steps = -1")));
  const auto first = run.err.find("model.layer");
  EXPECT_EQ(run.err.find("model.layer: unknown", first + 1), std::string::npos) << run.err;
}

TEST_F(Failure, LonelyRanksRefuseBeforeTouchingAFile) {
  const std::string alone =
      program() + " " + deck() + " training.steps=1 --output-dir " + output("run").string();
  const auto run = run_command("export SLURM_NTASKS=4 SLURM_PROCID=0; " + alone);
  EXPECT_EQ(run.code, 3);
  EXPECT_THAT(run.err, AllOf(HasSubstr("SLURM_NTASKS=4"), HasSubstr("srun --mpi=pmix")));
  EXPECT_FALSE(std::filesystem::exists(output("run")));
  EXPECT_EQ(run_command("export SLURM_NTASKS=4 SLURM_PROCID=0; " + alone + " --single").code, 0);
  EXPECT_EQ(run_command("export SLURM_NTASKS=4 SLURM_PROCID=0; " + alone + " --dry-run").code, 0);
}

TEST_F(Failure, APlanThatDoesNotFitIsRefused) {
  const auto plan = folder_.write(
      "plan.json",
      R"({"format":"adaptra-plan","version":1,"stages":2,"microbatches":1,"order":[["F0","W0","B0"],["F0","B0","W0"]]})");
  const auto run = train(2, "run", "training.microbatches=1 plan.file=" + plan);
  EXPECT_EQ(run.code, 7) << run.err;
  EXPECT_THAT(run.err, HasSubstr("[W0]"));
  const auto other = train(2, "run", "training.microbatches=2 plan.file=" + plan);
  EXPECT_EQ(other.code, 7);
  EXPECT_THAT(other.err, HasSubstr("1 microbatches"));
}

TEST_F(Failure, UsageErrorsAreExitTwo) {
  EXPECT_EQ(run_command(program()).code, 2);
  EXPECT_EQ(run_command(program() + " --no-such-flag").code, 2);
  EXPECT_EQ(run_command(program() + " no_such_deck.toml --dry-run").code, 2);
  EXPECT_EQ(run_command(program() + " --help").code, 0);
  EXPECT_EQ(run_command(program() + " --version").code, 0);
}

}  // namespace
}  // namespace adaptra::driver
