// Gradients of every kind of parameter against central differences of the loss, dropout active: the
// masks are a function of their key, so the loss with dropout is one, too.

#include "chain.hpp"
#include "model/random.hpp"

#include <gtest/gtest.h>

namespace adaptra::model {
namespace {

TEST(Gradient, AgreesWithFiniteDifferences) {
  const Config config{2, 16, 2, 37, 70, Precision::fp32, 0.1, 5};
  const Batch batch{2, 70};
  Chain chain(config, 2, batch, 2);
  const auto tokens = some_tokens(config, batch, 2, 3);
  // Larger weights than the initial ones: every term matters.
  for (auto& stage : chain.stages()) {
    for (const auto& parameter : stage->parameters()) {
      auto values = stage->weights().subspan(static_cast<std::size_t>(parameter.offset),
                                             static_cast<std::size_t>(parameter.elements()));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto bits = draw(static_cast<std::uint64_t>(parameter.index), i) >> 11;
        values[i] += 0.3F * static_cast<float>(static_cast<double>(bits) * 0x1p-53 - 0.5);
      }
    }
    stage->weights_changed();
  }
  chain.gradients(tokens);
  // The finite difference runs along the gradient itself, tensor by tensor: its slope is the
  // squared norm, large against float rounding.
  for (auto& stage : chain.stages()) {
    for (const auto& parameter : stage->parameters()) {
      if (parameter.index == 0) continue;  // both copies would have to move: see the golden test
      const auto begin = static_cast<std::size_t>(parameter.offset);
      const auto count = static_cast<std::size_t>(parameter.elements());
      chain.gradients(tokens);
      const std::vector<float> gradient(stage->gradients().begin() + begin,
                                        stage->gradients().begin() + begin + count);
      double square = 0;
      for (const float g : gradient) square += double(g) * g;
      ASSERT_GT(square, 0) << parameter.name;
      const double size = 2e-2 / std::sqrt(square);  // a step of length 0.02
      const std::vector<float> start(stage->weights().begin() + begin,
                                     stage->weights().begin() + begin + count);
      double loss[2];
      for (const int side : {0, 1}) {
        for (std::size_t i = 0; i < count; ++i) {
          stage->weights()[begin + i] =
              start[i] + static_cast<float>((side == 0 ? -size : size) * gradient[i]);
        }
        stage->weights_changed();
        loss[side] = chain.gradients(tokens);
      }
      std::copy(start.begin(), start.end(), stage->weights().begin() + begin);
      stage->weights_changed();
      const double slope = (loss[1] - loss[0]) / (2 * size);
      EXPECT_NEAR(slope / square, 1.0, 0.01) << parameter.name;
    }
  }
}

}  // namespace
}  // namespace adaptra::model
