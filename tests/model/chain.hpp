#pragma once
// A whole model as a chain of stages in one process: what the pipeline does, without ranks or
// wires.

#include "model/stage_model.hpp"

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

namespace adaptra::model {

/// When the weight gradients of a microbatch are formed.
enum class WeightTime { at_once, at_the_end };

class Chain {
 public:
  Chain(const Config& config, int stages, const Batch& batch, int microbatches)
      : config_(config), batch_(batch), microbatches_(microbatches) {
    for (const auto& part : split_layers(config, stages, batch)) {
      const auto blocks = activation_blocks(part);
      Capacity capacity;
      capacity.in_flight = microbatches;
      capacity.microbatches = microbatches;
      for (int k = 0; k < microbatches; ++k) {  // all F first is the most a plan can hold
        capacity.activations =
            capacity.activations + max(blocks.after_forward, blocks.during_backward);
      }
      stages_.push_back(StageModel::make(config, part, batch, capacity));
    }
    const auto bytes =
        static_cast<std::size_t>(batch.rows() * config.channels) * config.element_bytes();
    activations_.resize(stages_.size(), std::vector<std::byte>(bytes));
    gradients_.resize(stages_.size(), std::vector<std::byte>(bytes));
  }

  std::vector<std::unique_ptr<StageModel>>& stages() { return stages_; }
  StageModel& first() { return *stages_.front(); }
  StageModel& last() { return *stages_.back(); }

  /// F, B and W of all microbatches; tokens are [microbatch][B][T+1]. Returns the mean loss.
  double gradients(std::span<const std::int32_t> tokens, WeightTime time = WeightTime::at_once,
                   std::uint64_t first_key = 0) {
    for (auto& stage : stages_) stage->begin_step();
    const double scale = 1.0 / static_cast<double>(microbatches_ * batch_.rows());
    for (int k = 0; k < microbatches_; ++k) {
      const Microbatch microbatch{k, k, first_key + static_cast<std::uint64_t>(k)};
      give_tokens(microbatch, tokens);
      forward(microbatch, scale);
      for (std::size_t s = stages_.size(); s-- > 0;) {
        stages_[s]->backward_input(microbatch,
                                   s + 1 < stages_.size() ? gradients_[s].data() : nullptr,
                                   s > 0 ? gradients_[s - 1].data() : nullptr);
        if (time == WeightTime::at_once) stages_[s]->backward_weight(microbatch);
      }
    }
    if (time == WeightTime::at_the_end) {
      for (auto& stage : stages_) {
        for (int k = 0; k < microbatches_; ++k) stage->backward_weight({k, k, 0});
      }
    }
    join_tied();
    return mean_loss();
  }

  double evaluate(std::span<const std::int32_t> tokens) {
    for (int k = 0; k < microbatches_; ++k) {
      const Microbatch microbatch{0, k, 0};
      give_tokens({0, k, 0}, tokens);
      for (std::size_t s = 0; s < stages_.size(); ++s) {
        stages_[s]->evaluate(microbatch, s > 0 ? activations_[s - 1].data() : nullptr,
                             activations_[s].data());
      }
    }
    return mean_loss();
  }

  /// Global norm: per tensor, combined in the order of the model.
  double norm() {
    std::vector<std::pair<int, double>> squares;
    for (auto& stage : stages_) {
      const auto sums = stage->gradient_squares();
      for (std::size_t p = 0; p < sums.size(); ++p) {
        if (stage->parameters()[p].index == 0 && !stage->part().embedding) continue;
        squares.emplace_back(stage->parameters()[p].index, sums[p]);
      }
    }
    std::sort(squares.begin(), squares.end());
    double total = 0;
    for (const auto& [index, sum] : squares) total += sum;
    return std::sqrt(total);
  }

  void update(AdamW adam, double clip_norm) {
    const double size = norm();
    if (clip_norm > 0 && size > clip_norm) adam.gradient_scale = clip_norm / size;
    for (auto& stage : stages_) stage->update(adam);
    for (auto& stage : stages_) stage->finish();
  }

  /// The logical elements of a tensor, from the first stage that has it.
  std::span<float> tensor(const std::string& name, std::span<float> (StageModel::*buffer)()) {
    for (auto& stage : stages_) {
      for (const auto& parameter : stage->parameters()) {
        if (parameter.name != name) continue;
        return (stage.get()->*buffer)().subspan(static_cast<std::size_t>(parameter.offset),
                                                static_cast<std::size_t>(parameter.elements()));
      }
    }
    return {};
  }

  /// All weights of the model in model order.
  std::vector<float> all_weights() {
    std::vector<float> all;
    for (auto& stage : stages_) {
      for (const auto& parameter : stage->parameters()) {
        if (parameter.index == 0 && !stage->part().embedding) continue;
        const auto values =
            stage->weights().subspan(static_cast<std::size_t>(parameter.offset),
                                     static_cast<std::size_t>(parameter.elements()));
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  }

 private:
  void give_tokens(const Microbatch& microbatch, std::span<const std::int32_t> all) {
    std::vector<std::int32_t> tokens, targets;
    const auto width = static_cast<std::size_t>(batch_.tokens) + 1;
    for (std::size_t b = 0; b < static_cast<std::size_t>(batch_.sequences); ++b) {
      const auto row = all.subspan(
          (static_cast<std::size_t>(microbatch.index * batch_.sequences) + b) * width, width);
      tokens.insert(tokens.end(), row.begin(), row.end() - 1);
      targets.insert(targets.end(), row.begin() + 1, row.end());
    }
    for (auto& stage : stages_) stage->set_tokens(microbatch, tokens, targets);
  }

  void forward(const Microbatch& microbatch, double scale) {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      stages_[s]->forward(microbatch, s > 0 ? activations_[s - 1].data() : nullptr,
                          activations_[s].data(), scale);
    }
  }

  double mean_loss() {
    const auto losses = last().losses();
    return std::accumulate(losses.begin(), losses.end(), 0.0) /
           static_cast<double>(microbatches_ * batch_.rows());
  }

  void join_tied() {
    if (stages_.size() > 1) {
      const auto own_first = first().tied_own(), own_last = last().tied_own();
      std::copy(own_last.begin(), own_last.end(), first().tied_other().begin());
      std::copy(own_first.begin(), own_first.end(), last().tied_other().begin());
      last().add_tied();
    }
    first().add_tied();
  }

  Config config_;
  Batch batch_;
  int microbatches_;
  std::vector<std::unique_ptr<StageModel>> stages_;
  std::vector<std::vector<std::byte>> activations_, gradients_;
};

/// Deterministic tokens [microbatches][B][T+1] below the vocabulary.
inline std::vector<std::int32_t> some_tokens(const Config& config, const Batch& batch,
                                             int microbatches, std::uint64_t seed) {
  std::vector<std::int32_t> tokens(
      static_cast<std::size_t>(microbatches * batch.sequences * (batch.tokens + 1)));
  std::uint64_t state = seed * 2862933555777941757ULL + 3037000493ULL;
  for (auto& token : tokens) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    token =
        static_cast<std::int32_t>((state >> 33) % static_cast<std::uint64_t>(config.vocabulary));
  }
  return tokens;
}

}  // namespace adaptra::model
