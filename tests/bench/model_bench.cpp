// Time of one training step (F, B, W, gradient norm, AdamW) of a whole GPT-2 model in one process.
//
//   model_bench --shape 124m --precision fp32 --steps 5 [--profile]
//
// prints one line per step: wall time, CPU time, tokens/s; with --profile also the time in each
// kernel, what is left being matrix products. With --on-request a step is made for each line of
// standard input, so that compare_peers.py can take turns with another program.

#include "model/stage_model.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <iostream>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace {

using namespace adaptra;

struct Shape {
  int layers, channels, heads;
  model::Batch batch;
};

const std::map<std::string, Shape> shapes = {
    {"124m", {12, 768, 12, {4, 64}}},
    {"6x384", {6, 384, 6, {8, 256}}},
    {"small", {2, 128, 4, {2, 32}}},
};

double wall_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

double cpu_ms() {
  return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// Time per kernel, through the callbacks of Kokkos Tools; these are plain functions, so their state
// has to be a static of the file.
struct KernelTimes {
  std::map<std::string, double> by_name;
  std::vector<std::string> names;
  double started = 0;
};
KernelTimes* kernel_times = nullptr;

void kernel_begins(const char* name, std::uint32_t, std::uint64_t* id) {
  *id = kernel_times->names.size();
  kernel_times->names.emplace_back(name);
  kernel_times->started = wall_ms();
}

void kernel_ends(std::uint64_t id) {
  kernel_times->by_name[kernel_times->names[id]] += wall_ms() - kernel_times->started;
  if (id + 1 == kernel_times->names.size()) kernel_times->names.pop_back();
}

/// One training step as a pipeline with a single stage makes it.
class Step {
 public:
  Step(const model::Config& config, const model::Batch& batch)
      : batch_(batch),
        stage_(model::StageModel::make(config, {0, config.layers, true, true}, batch,
                                       capacity(config))) {
    const auto rows = static_cast<std::size_t>(batch.rows());
    std::uint64_t state = 1;
    for (std::size_t i = 0; i <= rows; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      const auto token = (state >> 33) % static_cast<std::uint64_t>(config.vocabulary);
      if (i < rows) tokens_.push_back(static_cast<std::int32_t>(token));
      if (i > 0) targets_.push_back(static_cast<std::int32_t>(token));
    }
  }

  /// Returns the loss per token before the update.
  double run() {
    const model::Microbatch microbatch{0, 0, static_cast<std::uint64_t>(++updates_)};
    stage_->begin_step();
    stage_->set_tokens(microbatch, tokens_, targets_);
    stage_->forward(microbatch, nullptr, nullptr, 1.0 / static_cast<double>(batch_.rows()));
    mark(0);
    stage_->backward_input(microbatch, nullptr, nullptr);
    mark(1);
    stage_->backward_weight(microbatch);
    mark(2);
    stage_->add_tied();
    const auto squares = stage_->gradient_squares();
    const double norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
    model::AdamW adam;
    adam.learning_rate = 1e-4;
    adam.update = updates_;
    adam.gradient_scale = std::min(1.0, 1.0 / norm);
    stage_->update(adam);
    stage_->finish();
    mark(3);
    return stage_->losses().front() / static_cast<double>(batch_.rows());
  }

  /// Wall time after F, B, W and the update of the last step.
  const std::array<double, 4>& marks() const { return marks_; }
  std::int64_t allocated_bytes() const { return stage_->allocated_bytes(); }

 private:
  static model::Capacity capacity(const model::Config& config) {
    const auto blocks = model::activation_blocks({0, config.layers, true, true});
    return {1, max(max(blocks.after_forward, blocks.during_backward), blocks.after_backward), 1};
  }
  void mark(std::size_t which) {
    stage_->finish();
    marks_[which] = wall_ms();
  }

  model::Batch batch_;
  std::unique_ptr<model::StageModel> stage_;
  std::vector<std::int32_t> tokens_, targets_;
  std::int64_t updates_ = 0;
  std::array<double, 4> marks_{};
};

struct Arguments {
  std::string shape = "124m", precision = "fp32";
  int threads = 1, steps = 5;
  bool on_request = false, profile = false;
};

void measure(Step& step, const Arguments& arguments, std::int64_t rows) {
  const double loss = step.run();  // first touch of all memory
  fmt::print("ready loss {:.6f}, {:.1f} MiB\n", loss,
             static_cast<double>(step.allocated_bytes()) / (1 << 20));
  std::fflush(stdout);
  KernelTimes times;
  if (arguments.profile) {
    kernel_times = &times;
    Kokkos::Tools::Experimental::set_begin_parallel_for_callback(kernel_begins);
    Kokkos::Tools::Experimental::set_end_parallel_for_callback(kernel_ends);
  }
  double total = 0;
  std::string line;
  for (int i = 0; arguments.on_request ? bool(std::getline(std::cin, line)) : i < arguments.steps;
       ++i) {
    const double wall = wall_ms(), cpu = cpu_ms();
    step.run();
    const double wall_taken = wall_ms() - wall, cpu_taken = cpu_ms() - cpu;
    total += wall_taken;
    const auto& marks = step.marks();
    fmt::print(
        "step {:.2f} ms wall, {:.2f} ms cpu, {:.1f} tokens/s; F {:.1f} B {:.1f} W {:.1f} "
        "update {:.1f} ms\n",
        wall_taken, cpu_taken, 1e3 * static_cast<double>(rows) / wall_taken, marks[0] - wall,
        marks[1] - marks[0], marks[2] - marks[1], marks[3] - marks[2]);
    std::fflush(stdout);
  }
  if (!arguments.profile) return;
  Kokkos::Tools::Experimental::set_begin_parallel_for_callback(nullptr);
  Kokkos::Tools::Experimental::set_end_parallel_for_callback(nullptr);
  std::vector<std::pair<double, std::string>> sorted;
  double in_kernels = 0;
  for (const auto& [name, ms] : times.by_name) {
    sorted.emplace_back(ms, name);
    in_kernels += ms;
  }
  std::sort(sorted.rbegin(), sorted.rend());
  fmt::print("share of the step:\n  {:5.1f} %  matrix products and the rest\n",
             100 * (total - in_kernels) / total);
  for (const auto& [ms, name] : sorted) fmt::print("  {:5.1f} %  {}\n", 100 * ms / total, name);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Times training steps of a whole GPT-2 model in one process"};
  app.add_option("--shape", arguments.shape, "124m, 6x384 or small");
  app.add_option("--precision", arguments.precision, "fp32 or bf16");
  app.add_option("--threads", arguments.threads, "host threads");
  app.add_option("--steps", arguments.steps, "steps to time after the first");
  app.add_flag("--on-request", arguments.on_request, "one step per line of standard input");
  app.add_flag("--profile", arguments.profile, "time per kernel at the end");
  CLI11_PARSE(app, argc, argv);
  const auto found = shapes.find(arguments.shape);
  if (found == shapes.end()) {
    fmt::print(stderr, "unknown --shape {}\n", arguments.shape);
    return 2;
  }
  const device::Session session(0, arguments.threads);
  model::Config config;
  config.layers = found->second.layers;
  config.channels = found->second.channels;
  config.heads = found->second.heads;
  config.precision =
      arguments.precision == "bf16" ? model::Precision::bf16 : model::Precision::fp32;
  Step step(config, found->second.batch);
  measure(step, arguments, found->second.batch.rows());
  return 0;
}
