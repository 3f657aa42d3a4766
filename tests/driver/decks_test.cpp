// Every deck of inputs/ trains: at its own layout where a laptop can, with the model shrunk where
// not.

#include "train_fixture.hpp"

#include <gmock/gmock.h>

namespace adaptra::driver {
namespace {

class Decks : public TrainFixture {};

TEST_F(Decks, EachDryRunsAsItIsAndTrainsWhenShrunk) {
  std::string tokens;
  for (int i = 0; i < 40000; ++i) {
    tokens += std::string{static_cast<char>(i * 7 % 251), static_cast<char>(i % 190)};
  }
  const auto data = folder_.write("train.bin", tokens);
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ADAPTRA_SOURCE_DIR "/inputs")) {
    const auto deck = entry.path().string();
    const auto dry = testing_support::run_command(program() + " " + deck + " --dry-run");
    EXPECT_EQ(dry.code, 0) << deck << dry.err;
    EXPECT_THAT(dry.out, testing::HasSubstr("parameters"));
    const auto name = entry.path().stem().string();
    std::string overrides =
        " training.steps=2 training.microbatches=4 parallel.pipeline=3 model.layers=4";
    if (name != "quickstart") {
      overrides +=
          " model.channels=32 model.heads=2 model.context_tokens=24 evaluation.microbatches=2"
          " evaluation.every_steps=1 training.microbatch_sequences=1 data.train=" +
          data + " data.validation=" + data;
    }
    const auto run = testing_support::run_command(
        "cd " ADAPTRA_SOURCE_DIR "; " + testing_support::mpirun(3) + " " + program() + " " + deck +
        overrides + " --output-dir " + output(name).string());
    EXPECT_EQ(run.code, 0) << deck << run.err;
    EXPECT_GE(log(name).size(), 2U);
    ++seen;
  }
  EXPECT_GE(seen, 5);
}

}  // namespace
}  // namespace adaptra::driver
