// What the stage reserves is what its plan needs: no less (it runs), no more (nothing is left
// over).

#include "model/stage_model.hpp"
#include "pipeline/gpt2_stage.hpp"
#include "plan/plan.hpp"

#include <gtest/gtest.h>

namespace adaptra::pipeline {
namespace {

class Counting final : public data::TokenSource {
 public:
  std::int64_t size() const override { return 10000; }
  std::uint64_t fingerprint() const override { return 0; }
  void copy(std::int64_t begin, std::span<std::int32_t> out) const override {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<std::int32_t>((begin + static_cast<std::int64_t>(i)) % 61);
    }
  }
};

TEST(Capacity, CarriesEveryPolicyAndNoBlockLessWould) {
  const model::Config config{4, 16, 2, 61, 8, model::Precision::fp32, 0, 1};
  const model::Batch batch{1, 8};
  const Counting source;
  for (const auto policy : {plan::Policy::gpipe, plan::Policy::one_f_one_b, plan::Policy::zb_h2}) {
    const auto plan = plan::make_plan(plan::uniform_profile(2, 5, 10, 10, 10), policy);
    ASSERT_TRUE(plan.ok());
    const auto parts = model::split_layers(config, 2, batch);
    for (std::size_t s = 0; s < 2; ++s) {
      const auto& order = plan.value().order.stages[s];
      const auto needed = capacity_for(parts[s], order, 5);
      const data::Sampler sampler(source, {8, 1, 5, 1, true, 1});
      const auto run = [&](const model::Capacity& capacity) {
        Gpt2Stage stage(model::StageModel::make(config, parts[s], batch, capacity), 0, 1.0 / 40);
        stage.begin_step(1, Gpt2Stage::Mode::training, sampler);
        std::vector<std::byte> in(stage.message_bytes()), out(stage.message_bytes());
        for (const auto& op : order) {
          const auto token = stage.enqueue(op, in, out);
          if (!token.ok()) return false;
        }
        return true;
      };
      EXPECT_TRUE(run(needed));
      for (const auto less :
           {model::Blocks{1, 0, 0}, model::Blocks{0, 1, 0}, model::Blocks{0, 0, 1}}) {
        auto short_of_one = needed;
        short_of_one.activations = needed.activations - less;
        EXPECT_FALSE(run(short_of_one));
      }
      auto fewer = needed;
      --fewer.in_flight;
      if (fewer.in_flight > 0) {
        EXPECT_FALSE(run(fewer));
      }
    }
  }
}

}  // namespace
}  // namespace adaptra::pipeline
