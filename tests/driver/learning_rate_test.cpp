#include "driver/learning_rate.hpp"

#include <gtest/gtest.h>

namespace adaptra::driver {
namespace {

TEST(LearningRate, WarmsUpThenFollowsTheCosineToTheMinimum) {
  const LearningRate rate{1.0, 0.1, 10, 110};
  EXPECT_DOUBLE_EQ(rate.at(1), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(10), 1.0);
  EXPECT_NEAR(rate.at(60), 0.55, 1e-12);  // half way: the mean of peak and minimum
  EXPECT_DOUBLE_EQ(rate.at(110), 0.1);
  EXPECT_DOUBLE_EQ(rate.at(1000), 0.1);
}

TEST(LearningRate, NeverRisesAfterTheWarmUp) {
  const LearningRate rate{3e-4, 0, 5, 50};
  for (int step = 6; step < 60; ++step) EXPECT_LE(rate.at(step), rate.at(step - 1));
}

TEST(LearningRate, WithoutWarmUpStartsNearThePeak) {
  const LearningRate rate{1.0, 0.0, 0, 100};
  EXPECT_GT(rate.at(1), 0.99);
}

}  // namespace
}  // namespace adaptra::driver
