// The promise of determinism: losses and weights have the same bits whatever the split into stages
// and whenever the weight gradients are formed.

#include "chain.hpp"
#include "model/elementwise.hpp"

#include <gtest/gtest.h>

namespace adaptra::model {
namespace {

struct Case {
  Precision precision;
  double dropout;
};

Config config_of(const Case& c) {
  // A vocabulary that is no multiple of the padding, layers that no split divides evenly.
  return {5, 32, 4, 131, 80, c.precision, c.dropout, 3};
}

struct Outcome {
  std::vector<double> losses;
  std::vector<float> weights;
};

// 20 updates with clipping and decay active.
Outcome train(const Config& config, int stages, WeightTime time) {
  const Batch batch{1, 80};  // more than one attention tile
  const int microbatches = 3;
  Chain chain(config, stages, batch, microbatches);
  Outcome outcome;
  for (int step = 1; step <= 20; ++step) {
    const auto tokens =
        some_tokens(config, batch, microbatches, static_cast<std::uint64_t>(step % 4));
    outcome.losses.push_back(
        chain.gradients(tokens, time, static_cast<std::uint64_t>(step * microbatches)));
    chain.update({3e-3, 0.9, 0.95, 1e-8, 0.1, step, 1.0}, 0.5);
  }
  outcome.weights = chain.all_weights();
  return outcome;
}

class Bitwise : public ::testing::TestWithParam<Case> {};

TEST_P(Bitwise, AnySplitAndAnyTimeOfW) {
  const Config config = config_of(GetParam());
  const Outcome whole = train(config, 1, WeightTime::at_once);
  EXPECT_LT(whole.losses.back(), whole.losses.front() - 0.1) << "nothing was learnt";
  for (const int stages : {1, 2, 4, 5}) {
    for (const auto time : {WeightTime::at_once, WeightTime::at_the_end}) {
      const Outcome split = train(config, stages, time);
      EXPECT_EQ(split.losses, whole.losses) << stages;
      EXPECT_TRUE(split.weights == whole.weights) << stages;
    }
  }
}

TEST_P(Bitwise, BothCopiesOfTheEmbeddingStayEqual) {
  const Config config = config_of(GetParam());
  const Batch batch{1, 16};
  Chain chain(config, 3, batch, 2);
  for (int step = 1; step <= 5; ++step) {
    chain.gradients(some_tokens(config, batch, 2, static_cast<std::uint64_t>(step)));
    chain.update({1e-2, 0.9, 0.95, 1e-8, 0.1, step, 1.0}, 1.0);
  }
  const auto elements = static_cast<std::size_t>(chain.first().parameters()[0].padded_elements);
  const auto first = chain.first().weights().first(elements);
  const auto last = chain.last().weights().first(elements);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), last.begin()));
  // padding rows are zero and stay zero
  for (std::size_t i = static_cast<std::size_t>(chain.first().parameters()[0].elements());
       i < elements; ++i) {
    ASSERT_EQ(first[i], 0.0F);
  }
}

TEST_P(Bitwise, EvaluationIsTheLossWithoutDropout) {
  Config config = config_of(GetParam());
  const Batch batch{2, 24};
  const auto tokens = some_tokens(config, batch, 2, 9);
  Chain with(config, 2, batch, 2);
  const double evaluated = with.evaluate(tokens);
  config.dropout = 0;
  Chain without(config, 1, batch, 2);
  EXPECT_EQ(evaluated, without.gradients(tokens));
  // nothing is left behind: the activations are all there for the next step
  EXPECT_EQ(with.evaluate(tokens), evaluated);
}

INSTANTIATE_TEST_SUITE_P(Model, Bitwise,
                         ::testing::Values(Case{Precision::fp32, 0.0}, Case{Precision::fp32, 0.2},
                                           Case{Precision::bf16, 0.0}, Case{Precision::bf16, 0.2}));

TEST(Dropout, MasksHaveTheRightShareAndScale) {
  const Dropout dropout = Dropout::with(0.25, 77);
  double sum = 0;
  int dropped = 0;
  constexpr int n = 100000;
  for (int i = 0; i < n; ++i) {
    const float factor = dropout.factor(static_cast<std::uint64_t>(i));
    sum += factor;
    dropped += factor == 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(dropped) / n, 0.25, 0.01);
  EXPECT_NEAR(sum / n, 1.0, 0.01);
}

}  // namespace
}  // namespace adaptra::model
