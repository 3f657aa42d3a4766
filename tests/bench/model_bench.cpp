// Time of training steps of a whole model on one rank: forward, backward, optimizer.
//   model_bench --layers 12 --channels 768 --heads 12 --sequences 4 --tokens 64 --precision fp32
//   --steps 5
// Prints one line per step: milliseconds; tests/bench/compare_peers.py reads them.

#include "device/session.hpp"
#include "model/stage_model.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>
#include <numeric>
#include <vector>

int main(int argc, char** argv) {
  using namespace adaptra;
  model::Config config;
  model::Batch batch{4, 64};
  std::string precision = "fp32";
  int steps = 5, threads = 1;
  CLI::App app{"Times training steps of a GPT-2 model on one rank", "model_bench"};
  app.add_option("--layers", config.layers, "Layers");
  app.add_option("--channels", config.channels, "Channels");
  app.add_option("--heads", config.heads, "Heads");
  app.add_option("--vocabulary", config.vocabulary, "Vocabulary");
  app.add_option("--sequences", batch.sequences, "Sequences");
  app.add_option("--tokens", batch.tokens, "Tokens of a sequence");
  app.add_option("--precision", precision, "fp32 or bf16");
  app.add_option("--steps", steps, "Steps to time, after one that is not");
  app.add_option("--threads", threads, "Host threads of the matrix products");
  CLI11_PARSE(app, argc, argv);
  config.context_tokens = std::max(config.context_tokens, batch.tokens);
  config.precision = precision == "bf16" ? model::Precision::bf16 : model::Precision::fp32;

  const device::Session session(0, threads);
  const model::StagePart part{0, config.layers, true, true};
  const auto blocks = model::activation_blocks(part);
  const auto stage = model::StageModel::make(
      config, part, batch, {1, max(blocks.after_forward, blocks.during_backward), 1});
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(batch.rows()));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] =
        static_cast<std::int32_t>(i * 2654435761U % static_cast<unsigned>(config.vocabulary));
  }
  for (int step = 0; step <= steps; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    stage->begin_step();
    stage->set_tokens({0, 0, 0}, tokens, tokens);
    stage->forward({0, 0, 0}, nullptr, nullptr, 1.0 / static_cast<double>(batch.rows()));
    stage->backward_input({0, 0, 0}, nullptr, nullptr);
    stage->backward_weight({0, 0, 0});
    stage->add_tied();
    const auto squares = stage->gradient_squares();
    model::AdamW adam{1e-4};
    adam.update = step + 1;
    stage->update(adam);
    stage->finish();
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    if (step > 0) fmt::print("{:.3f}\n", ms);
  }
  return 0;
}
