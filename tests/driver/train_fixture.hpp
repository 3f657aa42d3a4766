#pragma once
// Small training runs through the program itself, with real ranks.

#include "support/command.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace adaptra::driver {

class TrainFixture : public ::testing::Test {
 protected:
  /// A deck of a tiny model on a text of its own: 5 layers, so that no split is even.
  std::string deck() const {
    std::string text;
    for (int i = 0; i < 4000; ++i)
      text += "the quick brown fox " + std::to_string(i * i % 97) + "\n";
    const std::string data = folder_.write("text.txt", text);
    return folder_.write("deck.toml", R"(
[model]
layers = 5
channels = 32
heads = 4
vocabulary = 300
context_tokens = 32
[training]
steps = 20
microbatches = 6
microbatch_sequences = 2
learning_rate = 3e-3
clip_norm = 0.5
[run]
peer_deadline_s = 20
[data]
train = [")" + data + "\"]\n");
  }

  std::filesystem::path output(const std::string& name) const { return folder_.path() / name; }

  /// Runs the program; the run's files are in output(name).
  testing_support::CommandResult train(int ranks, const std::string& name,
                                       const std::string& overrides = "",
                                       const std::string& before = "") const {
    return testing_support::run_command(before + testing_support::mpirun(ranks) + " " + program() +
                                        " " + deck() +
                                        " parallel.pipeline=" + std::to_string(ranks) + " " +
                                        overrides + " --output-dir " + output(name).string());
  }

  static std::string program() { return ADAPTRA_BIN_DIR "/adaptra-train"; }

  /// Lines of log.jsonl.
  std::vector<nlohmann::json> log(const std::string& name) const {
    std::istringstream lines(testing_support::read_text(output(name) / "log.jsonl"));
    std::vector<nlohmann::json> all;
    for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }

  /// What must be equal to the last bit: losses and norms of all steps, and the final weights.
  std::string bits(const std::string& name) const {
    std::string text;
    for (const auto& line : log(name)) {
      for (const char* key : {"step", "loss", "grad_norm", "validation_loss", "weights"}) {
        if (line.contains(key)) text += std::string(key) + "=" + line[key].dump() + " ";
      }
      text += "\n";
    }
    return text;
  }

  testing_support::TemporaryFolder folder_;
};

}  // namespace adaptra::driver
