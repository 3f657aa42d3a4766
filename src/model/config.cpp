#include "model/config.hpp"

#include "core/error.hpp"
#include "model/parameters.hpp"
#include "model/workspace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace adaptra::model {

std::int64_t parameter_count(const Config& config) {
  const std::int64_t c = config.channels, l = config.layers;
  // embeddings; per layer: two LayerNorms 4C, attention 4C^2 + 4C, MLP 8C^2 + 5C; final LayerNorm
  // 2C
  return (std::int64_t{config.vocabulary} + config.context_tokens) * c + l * (12 * c * c + 13 * c) +
         2 * c;
}

std::int64_t parameter_count(const Config& config, const StagePart& part) {
  std::int64_t count = 0;
  for (const auto& parameter : list_parameters(config, part)) count += parameter.elements();
  return count;
}

namespace {

// Of one layer and one token, forward: four linear maps, and attention over half the context on
// average.
double layer_forward_flops(const Config& config, int tokens) {
  const double c = config.channels;
  return 24 * c * c + 2 * c * tokens;
}

double head_product_flops(const Config& config) {
  return 2.0 * config.channels * config.padded_vocabulary();
}

}  // namespace

double flops_per_token(const Config& config, int tokens) {
  return 3 * (config.layers * layer_forward_flops(config, tokens) +
              2.0 * config.channels * config.vocabulary);
}

StageWork work_of(const Config& config, const StagePart& part, const Batch& batch) {
  const double c = config.channels, rows = static_cast<double>(batch.rows());
  const double linear = 24 * c * c, attention = 2 * c * batch.tokens;
  StageWork work;
  work.forward = part.layers * (linear + attention);
  // B recomputes the attention scores: 5 products where F has 2.
  work.backward_input = part.layers * (linear + 2.5 * attention);
  work.backward_weight = part.layers * linear;
  if (part.head) {
    // All three products while the logits exist.
    work.forward += 3 * head_product_flops(config);
  }
  if (part.embedding) {
    // Memory traffic rather than arithmetic: a few passes over M x C.
    work.forward += 16 * c;
    work.backward_input += 16 * c;
  }
  work.forward *= rows;
  work.backward_input *= rows;
  work.backward_weight *= rows;
  return work;
}

std::vector<StagePart> split_layers(const Config& config, int stages, const Batch& batch) {
  if (stages < 1 || config.layers < stages) {
    throw Error(
        ExitCode::usage,
        fmt::format("parallel.pipeline = {} stages but model.layers = {}: every stage needs "
                    "at least one layer",
                    stages, config.layers));
  }
  const auto part_of = [&](int stage, int first, int layers) {
    return StagePart{first, layers, stage == 0, stage == stages - 1};
  };
  const auto s_count = static_cast<std::size_t>(stages);
  const auto l_count = static_cast<std::size_t>(config.layers);
  const auto work = [&](int stage, int end, int layers) {
    return work_of(config, part_of(stage, end - layers, layers), batch).total();
  };
  constexpr double none = std::numeric_limits<double>::infinity();
  std::vector chosen(s_count, std::vector<int>(l_count + 1, 0));
  // best[s][l]: least cost of stages 0..s over the first l layers; `join` adds a stage's work to
  // it.
  const auto search = [&](const auto& join) {
    std::vector best(s_count, std::vector<double>(l_count + 1, none));
    for (int s = 0; s < stages; ++s) {
      const auto si = static_cast<std::size_t>(s);
      for (int l = s + 1; l <= config.layers; ++l) {
        for (int n = s == 0 ? l : 1; n <= l - s; ++n) {
          const double before = s == 0 ? 0.0 : best[si - 1][static_cast<std::size_t>(l - n)];
          const double cost = join(before, work(s, l, n));
          auto& entry = best[si][static_cast<std::size_t>(l)];
          if (cost < entry) {
            entry = cost;
            chosen[si][static_cast<std::size_t>(l)] = n;
          }
        }
      }
    }
    return best.back().back();
  };
  // First the least maximum, then, within it, the most even spread.
  const double limit = search([](double before, double w) { return std::max(before, w); });
  search([&](double before, double w) {
    return w <= limit * (1 + 1e-9) ? before + (w / limit) * (w / limit) : none;
  });
  std::vector<StagePart> parts(s_count);
  int left = config.layers;
  for (int s = stages - 1; s >= 0; --s) {
    const int n = chosen[static_cast<std::size_t>(s)][static_cast<std::size_t>(left)];
    parts[static_cast<std::size_t>(s)] = part_of(s, left - n, n);
    left -= n;
  }
  return parts;
}

ActivationBlocks activation_blocks(const StagePart& part) {
  // F keeps of a layer: its input, the attention's output, the sum after it; q, k, v; the MLP
  // before GELU. W needs the inputs of the four products and the gradients of their outputs. B goes
  // layer by layer: it takes what W needs before it gives back what only F and B needed.
  const int l = part.layers, head = part.head ? 1 : 0;
  const int running = l > 0 ? 1 : 0;
  ActivationBlocks blocks;
  blocks.after_forward = {3 * l + 2 * head, l, l};
  blocks.after_backward = {5 * l, l, 2 * l};
  blocks.during_backward = {5 * l + 2 * running, l + running, 2 * l};
  blocks.during_backward = max(blocks.during_backward, Blocks{3 * l + 2 * head, l, l});
  return blocks;
}

StageMemory memory_of(const Config& config, const StagePart& part, const Batch& batch) {
  StageMemory memory;
  std::int64_t stored = 0;
  for (const auto& parameter : list_parameters(config, part)) stored += parameter.padded_elements;
  const std::int64_t tied = part.embedding || part.head ? std::int64_t{config.padded_vocabulary()} *
                                                              config.channels * std::int64_t{4}
                                                        : 0;
  memory.weights = stored * (config.precision == Precision::bf16 ? 6 : 4);
  memory.gradients = stored * 4 + tied;
  memory.optimizer = stored * 8;
  memory.block = batch.rows() * config.channels * std::int64_t(config.element_bytes());
  memory.message = memory.block;
  memory.statistics = statistics_bytes(config, part, batch);
  memory.workspace = workspace_bytes(config, part, batch);
  return memory;
}

}  // namespace adaptra::model
