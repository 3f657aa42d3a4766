#pragma once
// A small made-up model, split over ranks as pipelines with replicas are, whose values follow from
// the step: what comes back can be checked without keeping it.

#include "checkpoint/checkpoint.hpp"
#include "mpi/communicator.hpp"

#include <cstdint>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

namespace adaptra::testing_support {

/// Value of an element at a step; any bits but NaN.
inline float value_at(std::int64_t step, std::size_t tensor, std::size_t element) {
  std::uint64_t x = static_cast<std::uint64_t>(step) * 1000003 + tensor * 7919 + element;
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
  return static_cast<float>(static_cast<std::int64_t>(x >> 24) - (std::int64_t{1} << 39)) *
         0x1p-30f;
}

class FakeModel {
 public:
  struct Tensor {
    std::string group, name;
    std::vector<std::int64_t> shape;
  };

  /// The share of `stage` of `stages`: tensor t belongs to stage t % stages, the first one to all
  /// (as a tied embedding).
  FakeModel(int stage, int stages, std::int64_t rows = 37) {
    for (const char* group : {"weights", "adam_m", "adam_v"}) {
      add(group, "wte.weight", {rows * 3, 20});
      for (int layer = 0; layer < 5; ++layer) {
        const auto h = "h." + std::to_string(layer) + ".";
        add(group, h + "ln_1.weight", {7});
        add(group, h + "attn.c_attn.weight", {rows, 3 * 11});
      }
      add(group, "ln_f.bias", {1});
    }
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const bool tied = tensors_[t].name == "wte.weight";
      if (!tied && static_cast<int>(t) % stages != stage) continue;
      const auto& shape = tensors_[t].shape;
      held_.push_back(t);
      data_.emplace_back(static_cast<std::size_t>(
          std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>())));
    }
  }

  void fill(std::int64_t step) {
    for (std::size_t k = 0; k < held_.size(); ++k) {
      for (std::size_t i = 0; i < data_[k].size(); ++i) {
        data_[k][i] = value_at(step, held_[k], i);
      }
    }
  }
  void clear() {
    for (auto& d : data_) d.assign(d.size(), 0.0f);
  }
  /// "" or the first tensor that is not as of `step`.
  std::string difference(std::int64_t step) const {
    for (std::size_t k = 0; k < held_.size(); ++k) {
      for (std::size_t i = 0; i < data_[k].size(); ++i) {
        if (data_[k][i] != value_at(step, held_[k], i)) {
          return tensors_[held_[k]].group + "/" + tensors_[held_[k]].name;
        }
      }
    }
    return "";
  }
  std::vector<checkpoint::TensorPart> parts() {
    std::vector<checkpoint::TensorPart> list;
    for (std::size_t k = 0; k < held_.size(); ++k) {
      const auto& tensor = tensors_[held_[k]];
      list.push_back({tensor.group, tensor.name, tensor.shape, data_[k]});
    }
    return list;
  }

 private:
  void add(std::string group, std::string name, std::vector<std::int64_t> shape) {
    tensors_.push_back({std::move(group), std::move(name), std::move(shape)});
  }
  std::vector<Tensor> tensors_;
  std::vector<std::size_t> held_;
  std::vector<std::vector<float>> data_;
};

inline checkpoint::RunState state_at(std::int64_t step) {
  checkpoint::RunState state;
  state.step = step;
  state.integers["tokens_seen"] = step * 4096;
  state.numbers["learning_rate"] = 1.0 / static_cast<double>(step + 3);
  state.texts["deck"] = "training.steps = 100\n";
  state.texts["plan"] = "";
  return state;
}

}  // namespace adaptra::testing_support
