// Each operator against a plain reference in double, and each backward against central differences
// of that reference.

#include "model/attention.hpp"
#include "model/column_sum.hpp"
#include "model/cross_entropy.hpp"
#include "model/elementwise.hpp"
#include "model/embedding.hpp"
#include "model/layernorm.hpp"
#include "model/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace adaptra::model {
namespace {

using Values = std::vector<double>;

Values random_values(std::size_t count, std::uint64_t key, double scale = 1) {
  Values values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = scale * (2 * static_cast<double>(draw(key, i) >> 11) * 0x1p-53 - 1);
    values[i] =
        static_cast<double>(static_cast<float>(values[i]));  // both sides see the same input
  }
  return values;
}

std::vector<float> narrow(const Values& values) {
  return {values.begin(), values.end()};
}

template <typename T>
void expect_near(const std::vector<T>& ours, const Values& reference, double tolerance,
                 const char* what) {
  ASSERT_EQ(ours.size(), reference.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(ours[i]), reference[i], tolerance) << what << " " << i;
  }
}

/// d/dx of sum(weights * f(x)) by central differences in double.
Values finite_difference(const std::function<Values(const Values&)>& f, const Values& x,
                         const Values& weights) {
  constexpr double h = 1e-5;
  Values gradient(x.size());
  Values moved = x;
  const auto dot = [&](const Values& y) {
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += weights[i] * y[i];
    return sum;
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    moved[i] = x[i] + h;
    const double above = dot(f(moved));
    moved[i] = x[i] - h;
    const double below = dot(f(moved));
    moved[i] = x[i];
    gradient[i] = (above - below) / (2 * h);
  }
  return gradient;
}

const device::Exec exec;

Values layernorm_reference(const Values& x, const Values& weight, const Values& bias,
                           std::size_t channels) {
  Values y(x.size());
  for (std::size_t row = 0; row < x.size() / channels; ++row) {
    const double* in = x.data() + row * channels;
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < channels; ++c) mean += in[c] / static_cast<double>(channels);
    for (std::size_t c = 0; c < channels; ++c) {
      variance += (in[c] - mean) * (in[c] - mean) / static_cast<double>(channels);
    }
    for (std::size_t c = 0; c < channels; ++c) {
      y[row * channels + c] = (in[c] - mean) / std::sqrt(variance + 1e-5) * weight[c] + bias[c];
    }
  }
  return y;
}

TEST(LayerNorm, ForwardAndBackward) {
  for (const int channels : {1, 7, 16, 40}) {
    const std::size_t rows = 70, c = static_cast<std::size_t>(channels);
    const auto x = random_values(rows * c, 1), weight = random_values(c, 2),
               bias = random_values(c, 3), dy = random_values(rows * c, 4);
    auto xf = narrow(x), wf = narrow(weight), bf = narrow(bias), dyf = narrow(dy);
    std::vector<float> y(rows * c), mean(rows), rstd(rows), again(rows * c), dx(rows * c);
    layernorm_forward(exec, rows, channels, xf.data(), wf.data(), bf.data(), y.data(), mean.data(),
                      rstd.data());
    expect_near(y, layernorm_reference(x, weight, bias, c), 1e-4, "y");
    layernorm_again(exec, rows, channels, xf.data(), wf.data(), bf.data(), mean.data(), rstd.data(),
                    again.data());
    EXPECT_EQ(again, y);
    if (channels == 1) continue;  // the output is constant
    layernorm_backward<float>(exec, rows, channels, dyf.data(), xf.data(), wf.data(), mean.data(),
                              rstd.data(), nullptr, dx.data());
    const auto expected = finite_difference(
        [&](const Values& moved) { return layernorm_reference(moved, weight, bias, c); }, x, dy);
    expect_near(dx, expected, 2e-3, "dx");
    std::vector<float> partial(static_cast<std::size_t>(column_blocks(rows)) * 2 * c), dw(c, 0.5F),
        db(c, 0.25F);
    add_layernorm_gradients(exec, rows, channels, dyf.data(), xf.data(), mean.data(), rstd.data(),
                            partial.data(), dw.data(), db.data());
    auto dw_expected = finite_difference(
        [&](const Values& moved) { return layernorm_reference(x, moved, bias, c); }, weight, dy);
    auto db_expected = finite_difference(
        [&](const Values& moved) { return layernorm_reference(x, weight, moved, c); }, bias, dy);
    for (auto& v : dw_expected) v += 0.5;  // added to what was there
    for (auto& v : db_expected) v += 0.25;
    expect_near(dw, dw_expected, 1e-3, "dw");
    expect_near(db, db_expected, 1e-3, "db");
  }
}

double gelu_reference(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(Gelu, ForwardAndBackwardOverItsWholeRange) {
  Values x;
  for (double v = -12; v <= 12; v += 0.0625) x.push_back(v);
  const int n = static_cast<int>(x.size());
  auto pre = narrow(x);
  std::vector<float> bias(x.size(), 0), act(x.size()), d_act(x.size(), 1), d_pre(x.size());
  bias_gelu(exec, 1, n, bias.data(), pre.data(), act.data());
  Values expected, slope;
  for (const double v : x) {
    expected.push_back(gelu_reference(v));
    slope.push_back((gelu_reference(v + 1e-6) - gelu_reference(v - 1e-6)) / 2e-6);
  }
  expect_near(act, expected, 2e-6, "gelu");
  auto again = pre;
  gelu_backward(exec, 1, n, d_act.data(), again.data(), d_pre.data());
  EXPECT_EQ(again, act);
  expect_near(d_pre, slope, 3e-6, "gelu'");
}

TEST(Exp, IsWithinTwoUnitsInTheLastPlace) {
  double worst = 0;
  for (int i = -86990; i < 87990; i += 7) {
    const float x = static_cast<float>(i) * 1e-3F;
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(device::exp_fast(x)) / exact - 1));
  }
  EXPECT_LT(worst, 2 * 0x1p-23);
  EXPECT_EQ(device::exp_fast(-1000.0F), 0.0F);
  EXPECT_TRUE(std::isinf(device::exp_fast(1000.0F)));
  EXPECT_TRUE(std::isnan(device::exp_fast(NAN)));
  EXPECT_EQ(device::exp_fast(0.0F), 1.0F);
}

TEST(ColumnSum, AddsAllRows) {
  for (const std::size_t rows : {1UL, 31UL, 32UL, 33UL, 100UL}) {
    const auto dy = random_values(rows * 5, 8);
    auto dyf = narrow(dy);
    std::vector<float> partial(
        static_cast<std::size_t>(column_blocks(static_cast<std::int64_t>(rows))) * 5),
        sum(5, 1);
    add_column_sum(exec, static_cast<std::int64_t>(rows), 5, dyf.data(), partial.data(),
                   sum.data());
    Values expected(5, 1);
    for (std::size_t i = 0; i < dy.size(); ++i) expected[i % 5] += dy[i];
    expect_near(sum, expected, 1e-4, "sum");
  }
}

TEST(CrossEntropy, LossAndGradientWithMaskedPadding) {
  const int vocabulary = 37, padded = 128;
  const std::size_t rows = 3;
  auto logits = random_values(rows * padded, 5, 8);
  const std::vector<std::int32_t> targets = {0, 36, 17};
  auto logits_f = narrow(logits);
  for (std::size_t row = 0; row < rows; ++row) {  // what is in the padding must not matter
    for (int v = vocabulary; v < padded; ++v)
      logits_f[row * padded + static_cast<std::size_t>(v)] = 1e30F;
  }
  const auto loss_of = [&](const Values& l) {
    Values losses;
    for (std::size_t row = 0; row < rows; ++row) {
      double sum = 0;
      for (int v = 0; v < vocabulary; ++v)
        sum += std::exp(l[row * padded + static_cast<std::size_t>(v)]);
      losses.push_back(std::log(sum) - l[row * padded + static_cast<std::size_t>(targets[row])]);
    }
    return losses;
  };
  std::vector<float> loss(rows), d(rows * padded, 7);
  double total = 0;
  cross_entropy(exec, rows, vocabulary, padded, logits_f.data(), targets.data(), loss.data());
  sum_losses(exec, rows, loss.data(), &total);
  const auto expected = loss_of(logits);
  expect_near(loss, expected, 1e-5, "loss");
  EXPECT_NEAR(total, expected[0] + expected[1] + expected[2], 1e-5);
  std::vector<float> in_place = logits_f, same_loss(rows);
  cross_entropy_gradient(exec, rows, vocabulary, padded, logits_f.data(), targets.data(), 0.5F,
                         same_loss.data(), d.data());
  expect_near(same_loss, expected, 1e-5, "loss");
  cross_entropy_gradient(exec, rows, vocabulary, padded, in_place.data(), targets.data(), 0.5F,
                         same_loss.data(), in_place.data());
  EXPECT_EQ(in_place, d);
  expect_near(d, finite_difference(loss_of, logits, Values(rows, 0.5)), 1e-5, "d_logits");
}

// qkv [T,3C] of one sequence to out [T,C].
Values attention_reference(const Values& qkv, std::size_t tokens, std::size_t heads,
                           std::size_t width) {
  const std::size_t c = heads * width;
  Values out(tokens * c, 0);
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t i = 0; i < tokens; ++i) {
      Values p(i + 1);
      double sum = 0;
      for (std::size_t j = 0; j <= i; ++j) {
        double s = 0;
        for (std::size_t w = 0; w < width; ++w) {
          s += qkv[i * 3 * c + h * width + w] * qkv[j * 3 * c + c + h * width + w];
        }
        p[j] = std::exp(s / std::sqrt(static_cast<double>(width)));
        sum += p[j];
      }
      for (std::size_t j = 0; j <= i; ++j) {
        for (std::size_t w = 0; w < width; ++w) {
          out[i * c + h * width + w] += p[j] / sum * qkv[j * 3 * c + 2 * c + h * width + w];
        }
      }
    }
  }
  return out;
}

TEST(Attention, ForwardAndBackwardAcrossTiles) {
  for (const int tokens :
       {1, 5, 64, 67}) {  // one token, part of a tile, a whole one, one and a bit
    Config config;
    config.channels = 6;
    config.heads = 2;
    const Batch batch{1, tokens};
    const auto t = static_cast<std::size_t>(tokens);
    const auto qkv = random_values(t * 18, 11, 2), d_out = random_values(t * 6, 12);
    auto qkv_f = narrow(qkv), d_out_f = narrow(d_out);
    const auto sizes = AttentionScratchSizes::of(config, batch);
    std::vector<float> scores(static_cast<std::size_t>(sizes.tile)), d_weights(scores.size()),
        accumulator(static_cast<std::size_t>(sizes.accumulator)), out(t * 6), lse(t * 2),
        d_qkv(t * 18, 9);
    const AttentionScratch<float> scratch{scores.data(), d_weights.data(), scores.data(),
                                          d_weights.data(), accumulator.data()};
    const device::Gemm gemm(exec, {});
    attention_forward(exec, gemm, config, batch, qkv_f.data(), Dropout::none(), scratch, out.data(),
                      lse.data());
    const auto reference = [&](const Values& v) { return attention_reference(v, t, 2, 3); };
    expect_near(out, reference(qkv), 1e-5, "out");
    attention_backward(exec, gemm, config, batch, qkv_f.data(), out.data(), d_out_f.data(),
                       lse.data(), Dropout::none(), scratch, d_qkv.data());
    expect_near(d_qkv, finite_difference(reference, qkv, d_out), 5e-5, "d_qkv");
  }
}

TEST(Embedding, GradientsAddRowsOfEqualTokens) {
  const std::vector<std::int32_t> tokens = {3, 1, 3, 0, 3, 1};  // two sequences of three
  const auto groups = TokenGroups::of(tokens);
  EXPECT_EQ(groups.token, (std::vector<std::int32_t>{0, 1, 3}));
  EXPECT_EQ(groups.start, (std::vector<std::int32_t>{0, 1, 3, 6}));
  EXPECT_EQ(groups.rows, (std::vector<std::int32_t>{3, 1, 5, 0, 2, 4}));
  const std::vector<float> dx = {1, 2, 4, 8, 16, 32};  // one channel
  std::vector<float> d_wte(5, 0), d_wpe(3, 0);
  add_token_gradient(exec, 3, 1, groups.rows.data(), groups.token.data(), groups.start.data(),
                     dx.data(), Dropout::none(), d_wte.data());
  add_position_gradient(exec, 2, 3, 1, dx.data(), Dropout::none(), d_wpe.data());
  EXPECT_EQ(d_wte, (std::vector<float>{8, 34, 0, 21, 0}));
  EXPECT_EQ(d_wpe, (std::vector<float>{9, 18, 36}));
}

TEST(Bf16, RoundsToNearestEvenAndKeepsSpecialValues) {
  using device::Bf16;
  EXPECT_EQ(float(Bf16(1.0F)), 1.0F);
  EXPECT_EQ(float(Bf16(1.0F + 0x1p-8F)), 1.0F);                // half way: to even
  EXPECT_EQ(float(Bf16(1.0F + 3 * 0x1p-8F)), 1.0F + 0x1p-6F);  // half way: to even
  EXPECT_EQ(float(Bf16(1.0F + 0x1.1p-8F)), 1.0F + 0x1p-7F);
  EXPECT_TRUE(std::isnan(float(Bf16(NAN))));
  EXPECT_TRUE(std::isinf(float(Bf16(INFINITY))));
  EXPECT_TRUE(std::isinf(float(Bf16(3.4e38F))));
}

}  // namespace
}  // namespace adaptra::model
