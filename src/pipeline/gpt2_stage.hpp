#pragma once
// The stage that trains: ops of the plan become F, B and W of a model part. Feeds the first and
// last stage with tokens and targets. Main thread only.

#include "data/sampler.hpp"
#include "device/event.hpp"
#include "model/stage_model.hpp"
#include "pipeline/stage.hpp"

#include <memory>
#include <vector>

namespace adaptra::pipeline {

/// What the ops of one stage hold at most.
model::Capacity capacity_for(const model::StagePart& part, const std::vector<plan::Op>& order,
                             int microbatches);

class Gpt2Stage final : public Stage {
 public:
  enum class Mode { training, evaluation };

  /// `replica` chooses this replica's share of the data; `loss_scale` = 1 / tokens of the global
  /// batch.
  Gpt2Stage(std::unique_ptr<model::StageModel> model, int replica, double loss_scale);

  /// Starts a step that reads from `sampler`, which must live until its end. Training clears
  /// gradients.
  void begin_step(std::int64_t step, Mode mode, const data::Sampler& sampler);

  std::size_t message_bytes() const override;
  Result<OpToken> enqueue(const plan::Op& op, std::span<const std::byte> input,
                          std::span<std::byte> output) override;
  Result<bool> ended(OpToken token) override;
  OpTimes times(OpToken token) override;

  model::StageModel& model() { return *model_; }

 private:
  // Device memory that a message passes through where the host's is out of reach.
  struct Staging {
    device::Buffer<unsigned char> input, output;
  };
  struct Entry {
    device::Event event;
    OpTimes times;
  };

  void run(const plan::Op& op, const void* input, void* output);
  model::Microbatch start_microbatch(int microbatch);

  std::unique_ptr<model::StageModel> model_;
  int replica_;
  double loss_scale_;
  std::int64_t step_ = 0;
  Mode mode_ = Mode::training;
  const data::Sampler* sampler_ = nullptr;
  std::vector<int> place_of_;  // by microbatch, -1: not in flight
  std::vector<int> free_places_;
  std::vector<std::int32_t> tokens_, targets_;
  Staging staging_;
  // Tokens name entries in turn; the executor has only a few open.
  static constexpr std::size_t open_ops = 8;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::uint64_t next_token_ = 0;
};

}  // namespace adaptra::pipeline
