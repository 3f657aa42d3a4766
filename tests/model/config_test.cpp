#include "model/config.hpp"

#include "chain.hpp"
#include "core/error.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace adaptra::model {
namespace {

Config gpt2(int layers, int channels, int heads) {
  Config config;
  config.layers = layers;
  config.channels = channels;
  config.heads = heads;
  return config;
}

TEST(ParameterCount, IsThatOfThePublishedModels) {
  EXPECT_EQ(parameter_count(gpt2(12, 768, 12)), 124'439'808);
  EXPECT_EQ(parameter_count(gpt2(24, 1024, 16)), 354'823'168);
  EXPECT_EQ(parameter_count(gpt2(36, 1280, 20)), 774'030'080);
  EXPECT_EQ(parameter_count(gpt2(48, 1600, 25)), 1'557'611'200);
}

TEST(SplitLayers, EveryLayerOnceInOrderAndNoStageEmpty) {
  for (const int layers : {1, 2, 5, 12, 13, 30, 48}) {
    for (int stages = 1; stages <= std::min(layers, 9); ++stages) {
      Config config = gpt2(layers, 64, 4);
      config.vocabulary = 1000;
      const auto parts = split_layers(config, stages, {2, 32});
      ASSERT_EQ(parts.size(), static_cast<std::size_t>(stages));
      int next = 0;
      for (std::size_t s = 0; s < parts.size(); ++s) {
        EXPECT_EQ(parts[s].first_layer, next);
        EXPECT_GE(parts[s].layers, 1);
        next += parts[s].layers;
        EXPECT_EQ(parts[s].embedding, s == 0);
        EXPECT_EQ(parts[s].head, s + 1 == parts.size());
      }
      EXPECT_EQ(next, layers);
      std::int64_t parameters = 0;
      for (const auto& part : parts) parameters += parameter_count(config, part);
      // the last stage holds a copy of the tied embedding
      const std::int64_t copy = stages > 1 ? std::int64_t{config.vocabulary} * config.channels : 0;
      EXPECT_EQ(parameters, parameter_count(config) + copy);
    }
  }
}

TEST(SplitLayers, GivesTheStageWithTheHeadFewerLayers) {
  const auto parts = split_layers(gpt2(12, 768, 12), 4, {1, 64});
  EXPECT_LT(parts.back().layers, parts[1].layers);
}

TEST(SplitLayers, NoOtherSplitHasALowerMaximum) {
  Config config = gpt2(7, 64, 4);
  config.vocabulary = 2000;
  const Batch batch{1, 32};
  const auto heaviest = [&](const std::vector<int>& counts) {
    double most = 0;
    int first = 0;
    for (std::size_t s = 0; s < counts.size(); ++s) {
      const StagePart part{first, counts[s], s == 0, s + 1 == counts.size()};
      most = std::max(most, work_of(config, part, batch).total());
      first += counts[s];
    }
    return most;
  };
  std::vector<int> ours;
  for (const auto& part : split_layers(config, 3, batch)) ours.push_back(part.layers);
  for (int a = 1; a <= 5; ++a) {
    for (int b = 1; a + b <= 6; ++b) EXPECT_LE(heaviest(ours), heaviest({a, b, 7 - a - b}));
  }
}

TEST(SplitLayers, FewerLayersThanStagesIsExplained) {
  try {
    split_layers(gpt2(3, 64, 4), 4, {1, 8});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find("model.layers = 3"), std::string::npos);
  }
}

class Memory : public ::testing::TestWithParam<Precision> {};

TEST_P(Memory, TheClosedFormIsWhatIsAllocated) {
  Config config = gpt2(6, 96, 4);
  config.vocabulary = 900;
  config.context_tokens = 128;
  config.precision = GetParam();
  const Batch batch{2, 128};
  for (const auto& part : split_layers(config, 3, batch)) {
    const auto blocks = activation_blocks(part);
    const Capacity capacity{4,
                            blocks.after_forward + blocks.after_forward + blocks.after_backward +
                                blocks.during_backward,
                            8};
    const auto stage = StageModel::make(config, part, batch, capacity);
    const auto memory = memory_of(config, part, batch);
    const std::int64_t stated =
        memory.fixed() + capacity.activations.units() * memory.block + 4 * memory.statistics;
    EXPECT_NEAR(static_cast<double>(stage->allocated_bytes()) / static_cast<double>(stated), 1.0,
                0.02);
  }
}

TEST_P(Memory, AttentionHoldsNothingQuadraticInTheContext) {
  Config config = gpt2(2, 64, 4);
  config.vocabulary = 100;
  config.precision = GetParam();
  std::int64_t per_token = 0;
  for (const int tokens : {256, 1024, 4096}) {
    config.context_tokens = tokens;
    const StagePart part{0, 2, true, true};
    const auto memory = memory_of(config, part, {1, tokens});
    const std::int64_t held = memory.activation(activation_blocks(part)) / tokens;
    if (per_token != 0) {
      EXPECT_EQ(held, per_token) << tokens;
    }
    per_token = held;
  }
}

INSTANTIATE_TEST_SUITE_P(Model, Memory, ::testing::Values(Precision::fp32, Precision::bf16));

}  // namespace
}  // namespace adaptra::model
