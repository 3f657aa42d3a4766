// Same deck, same bits: through real ranks and messages.

#include "train_fixture.hpp"

#include <gmock/gmock.h>

#include <cmath>

namespace adaptra::driver {
namespace {

class Determinism : public TrainFixture, public ::testing::WithParamInterface<std::string> {};

TEST_P(Determinism, LossesAndWeightsAreEqualForOneTwoAndFourStages) {
  const std::string precision = "model.precision=" + GetParam();
  ASSERT_EQ(train(1, "one", precision).code, 0);
  ASSERT_EQ(train(2, "two", precision).code, 0);
  ASSERT_EQ(train(4, "four", precision).code, 0);
  EXPECT_EQ(log("one").size(), 21U);  // 20 steps and the end
  EXPECT_LT(log("one")[19]["loss"].get<double>(), log("one")[0]["loss"].get<double>() - 0.5);
  EXPECT_EQ(bits("one"), bits("two"));
  EXPECT_EQ(bits("one"), bits("four"));
}

INSTANTIATE_TEST_SUITE_P(Precisions, Determinism, ::testing::Values("fp32", "bf16"));

class Policies : public TrainFixture {};

TEST_F(Policies, AnyOrderGivesTheSameBits) {
  ASSERT_EQ(train(1, "reference", "training.steps=5").code, 0);
  for (const std::string policy :
       {"gpipe", "1f1b", "zb-h1", "zb-h2", "greedy", "slackness", "adaptra"}) {
    const auto run = train(4, policy, "training.steps=5 plan.budget_ms=50 plan.policy=" + policy);
    ASSERT_EQ(run.code, 0) << policy << run.err;
    EXPECT_EQ(bits(policy), bits("reference")) << policy;
  }
}

TEST_F(Policies, BothWaitingRulesGiveTheSameBits) {
  ASSERT_EQ(train(3, "delegated", "training.steps=5 transport.path=delegated").code, 0);
  // Without eager sends every message is a rendezvous.
  ASSERT_EQ(train(3, "direct", "training.steps=5 transport.path=direct",
                  "export OMPI_MCA_btl_vader_eager_limit=256 OMPI_MCA_btl_tcp_eager_limit=256; ")
                .code,
            0);
  EXPECT_EQ(bits("delegated"), bits("direct"));
}

TEST_F(Policies, EveryWireGivesTheSameBits) {
  const std::string validation =
      "evaluation.microbatches=2 data.validation=" + (folder_.path() / "text.txt").string();
  ASSERT_EQ(
      train(4, "mpi", "training.steps=6 evaluation.every_steps=2 transport.wire=mpi " + validation)
          .code,
      0);
  const std::string ucx =
      "training.steps=6 evaluation.every_steps=2 transport.wire=ucx transport.checksum=true " +
      validation;
  ASSERT_EQ(train(4, "shared", ucx).code, 0);
  EXPECT_EQ(bits("shared"), bits("mpi"));
  const std::string tcp = ucx +
                          " transport.same_host=network \"transport.rails=['lo', 'lo']\" "
                          "transport.rail_deadline_s=1";
  ASSERT_EQ(train(4, "tcp", tcp).code, 0);
  EXPECT_EQ(bits("tcp"), bits("mpi"));
  for (const std::string rule : {"direct", "delegated"}) {
    const auto cut = train(4, "cut_" + rule,
                           tcp + " transport.path=" + rule +
                               " \"faults.inject=['rail_down links=1 rail=0 steps=2:3 after=2', "
                               "'latency links=0 ms=3 jitter_ms=2 steps=4:']\"");
    ASSERT_EQ(cut.code, 0) << cut.err;
    EXPECT_EQ(bits("cut_" + rule), bits("mpi"));
    EXPECT_THAT(cut.err, testing::HasSubstr("rail 0 (tcp on lo) is down"));
  }
}

TEST_F(Policies, ALinkWithoutRailsEndsTheRunOnAllRanks) {
  const auto run = train(3, "lost",
                         "training.steps=8 transport.same_host=network \"transport.rails=['lo']\" "
                         "\"faults.inject=['rail_down links=1 steps=3:']\"");
  EXPECT_NE(run.code, 0);
  EXPECT_THAT(run.err, testing::HasSubstr("link 1 to stage"));
}

TEST_F(Policies, FewerMicrobatchesThanStagesRun) {
  for (const int n : {1, 2, 3}) {
    const std::string settings = "training.steps=3 training.microbatches=" + std::to_string(n);
    const std::string suffix = std::to_string(n);
    ASSERT_EQ(train(1, "one" + suffix, settings).code, 0);
    for (const std::string policy : {"1f1b", "zb-h2"}) {
      const auto run = train(5, policy + suffix, settings + " plan.policy=" + policy);
      ASSERT_EQ(run.code, 0) << run.err;
      EXPECT_EQ(bits(policy + suffix), bits("one" + suffix)) << n << policy;
    }
  }
}

class Replicas : public TrainFixture {};

TEST_F(Replicas, TwoReplicasLearnWhatOneLearnsWithTwiceTheMicrobatches) {
  ASSERT_EQ(train(1, "one", "training.microbatches=6").code, 0);
  const auto run = testing_support::run_command(
      testing_support::mpirun(4) + " " + program() + " " + deck() +
      " parallel.pipeline=2 parallel.data=2 training.microbatches=3 --output-dir " +
      output("two").string());
  ASSERT_EQ(run.code, 0) << run.err;
  const auto one = log("one"), two = log("two");
  ASSERT_EQ(one.size(), two.size());
  for (std::size_t step = 0; step < 20; ++step) {
    EXPECT_NEAR(one[step]["loss"].get<double>(), two[step]["loss"].get<double>(), 1e-5) << step;
  }
  EXPECT_NEAR(one[0]["grad_norm"].get<double>(), two[0]["grad_norm"].get<double>(), 1e-6);
}

TEST_F(Replicas, TheBitsDoNotDependOnThePipelineWithinTwoReplicas) {
  for (const int stages : {1, 2}) {
    const auto run = testing_support::run_command(
        testing_support::mpirun(2 * stages) + " " + program() + " " + deck() +
        " training.steps=6 parallel.data=2 parallel.pipeline=" + std::to_string(stages) +
        " --output-dir " + output("p" + std::to_string(stages)).string());
    ASSERT_EQ(run.code, 0) << run.err;
  }
  EXPECT_EQ(bits("p1"), bits("p2"));
}

class Evaluation : public TrainFixture {};

TEST_F(Evaluation, HasItsOwnLossAndDoesNotDisturbTheTraining) {
  const std::string data = " data.validation=" + (folder_.path() / "text.txt").string();
  ASSERT_EQ(train(2, "without", "training.steps=6").code, 0);
  ASSERT_EQ(
      train(3, "with", "training.steps=6 evaluation.every_steps=2 evaluation.microbatches=7" + data)
          .code,
      0);
  std::vector<double> evaluated;
  std::string rest;
  for (const auto& line : log("with")) {
    if (line.contains("validation_loss")) {
      evaluated.push_back(line["validation_loss"]);
    } else if (line.contains("loss")) {
      rest += line["loss"].dump() + "\n";
    }
  }
  ASSERT_EQ(evaluated.size(), 3U);
  EXPECT_LT(evaluated[2], evaluated[0]);
  std::string expected;
  for (const auto& line : log("without")) {
    if (line.contains("loss")) expected += line["loss"].dump() + "\n";
  }
  EXPECT_EQ(rest, expected);
}

}  // namespace
}  // namespace adaptra::driver
