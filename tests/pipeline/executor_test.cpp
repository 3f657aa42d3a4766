#include "pipeline/executor.hpp"

#include "pipeline/clock.hpp"
#include "plan/plan.hpp"
#include "support/fake_channel.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

namespace adaptra::pipeline {
namespace {

using plan::Op;
using plan::OpKind;
using testing_support::FakeLink;

struct Payload {
  int stage = -1, microbatch = -1, kind = -1;
};

/// A stage whose ops end some polls after they were enqueued, as on a GPU. Checks that every input
/// is the right one and is still there when the op ends.
class LateStage final : public Stage {
 public:
  LateStage(int stage, int stages, int lateness)
      : stage_(stage), stages_(stages), lateness_(lateness) {}

  std::size_t message_bytes() const override { return sizeof(Payload); }

  Result<OpToken> enqueue(const Op& op, std::span<const std::byte> input,
                          std::span<std::byte> output) override {
    open_.push_back({op, input, output, lateness_});
    return OpToken{first_ + open_.size() - 1};
  }
  Result<bool> ended(OpToken token) override {
    if (token.value < first_) return true;
    Pending& pending = open_.front();  // in order, as on a stream
    if (pending.polls_left-- > 0) return false;
    if (const std::string wrong = finish(pending); !wrong.empty())
      return Error(ExitCode::internal, wrong);
    done.push_back(pending.op);
    open_.pop_front();
    ++first_;
    return true;
  }
  OpTimes times(OpToken) override { return {now_ns(), now_ns()}; }

  std::vector<Op> done;
  std::size_t most_open = 0;

 private:
  struct Pending {
    Op op;
    std::span<const std::byte> input;
    std::span<std::byte> output;
    int polls_left;
  };

  std::string finish(const Pending& p) {
    most_open = std::max(most_open, open_.size());
    const int kind = static_cast<int>(p.op.kind);
    const bool takes = (p.op.kind == OpKind::forward && stage_ > 0) ||
                       (p.op.kind == OpKind::backward_input && stage_ + 1 < stages_);
    if (takes != !p.input.empty()) return "input where there is none, or none where one is";
    if (takes) {
      Payload came;
      std::memcpy(&came, p.input.data(), sizeof came);
      const int from = stage_ + (p.op.kind == OpKind::forward ? -1 : 1);
      if (came.stage != from || came.microbatch != p.op.microbatch || came.kind != kind) {
        return "a wrong message";
      }
    }
    if (!p.output.empty()) {
      const Payload goes{stage_, p.op.microbatch, kind};
      std::memcpy(p.output.data(), &goes, sizeof goes);
    }
    return "";
  }

  int stage_, stages_, lateness_;
  std::deque<Pending> open_;
  std::uint64_t first_ = 0;
};

/// Runs a whole pipeline, one thread per stage.
void run_pipeline(const plan::Order& order, SendRule rule, int lateness, int slots) {
  const int stages = static_cast<int>(order.stages.size());
  std::vector<std::unique_ptr<FakeLink>> links;
  for (int i = 0; i + 1 < stages; ++i) {
    links.push_back(std::make_unique<FakeLink>(sizeof(Payload), slots));
  }
  std::vector<Status> outcomes(static_cast<std::size_t>(stages));
  std::vector<std::thread> threads;
  for (int s = 0; s < stages; ++s) {
    threads.emplace_back([&, s] {
      const auto i = static_cast<std::size_t>(s);
      LateStage stage(s, stages, lateness);
      Progress progress;
      LinkEnd previous, next;
      if (s > 0) previous = {&links[i - 1]->lower(), rule};
      if (s + 1 < stages) next = {&links[i]->upper(), rule};
      Executor executor(stage, previous, next, progress, 20);
      for (int step = 1; step <= 2; ++step) {
        stage.done.clear();
        outcomes[i] = executor.run(step, order.stages[i]);
        if (!outcomes[i].ok()) return;
        EXPECT_EQ(stage.done, order.stages[i]);
        EXPECT_EQ(executor.records().size(), order.stages[i].size());
        for (std::size_t r = 0; r < executor.records().size(); ++r) {
          EXPECT_EQ(executor.records()[r].op, order.stages[i][r]);
        }
      }
      if (rule == SendRule::delegated && lateness > 0) {
        EXPECT_LE(stage.most_open, 2U);  // one runs, one is enqueued behind it
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& outcome : outcomes) EXPECT_TRUE(outcome.ok()) << outcome.error().what();
  const int n = static_cast<int>(order.stages[0].size() / 3);
  for (const auto& link : links) {
    EXPECT_EQ(link->consumed(), 2 * 2 * n);
    EXPECT_EQ(link->slots_out(), 0);
  }
}

TEST(Executor, RunsEveryPolicyForManyShapes) {
  for (const auto policy : {plan::Policy::gpipe, plan::Policy::one_f_one_b, plan::Policy::zb_h1,
                            plan::Policy::zb_h2, plan::Policy::greedy}) {
    for (const int stages : {1, 2, 3, 5, 8}) {
      for (const int n : {1, 2, stages, 2 * stages + 1}) {
        const auto profile = plan::uniform_profile(stages, n, 10, 10, 10);
        const auto plan = plan::make_plan(profile, policy);
        ASSERT_TRUE(plan.ok()) << plan.error().what();
        SCOPED_TRACE(std::string(to_string(policy)) + " S=" + std::to_string(stages) +
                     " N=" + std::to_string(n));
        run_pipeline(plan.value().order, SendRule::delegated, n % 3, n);
        run_pipeline(plan.value().order, SendRule::direct, n % 3, n);
      }
    }
  }
}

TEST(Executor, AMessageThatNeverComesIsAnErrorThatSaysWhich) {
  FakeLink link(sizeof(Payload), 2);
  LateStage stage(1, 2, 0);
  Progress progress;
  Executor executor(stage, {&link.lower(), SendRule::delegated}, {}, progress, 0.2);
  const Status status = executor.run(
      7, {{OpKind::forward, 0}, {OpKind::backward_input, 0}, {OpKind::backward_weight, 0}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ExitCode::peer_lost);
  EXPECT_THAT(status.error().what(),
              testing::HasSubstr("waiting for the activation of microbatch 0"));
}

}  // namespace
}  // namespace adaptra::pipeline
