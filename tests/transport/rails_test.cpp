// Training between two hosts with two data rails and a management network, on real network devices:
// what a cluster's users do to rails, and the same bits as without. Hosts are network namespaces
// (tests/lab/netlab.sh), so it needs root; otherwise it is skipped.
#include "support/command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace adaptra {
namespace {

using testing_support::CommandResult;
using testing_support::read_text;
using testing_support::run_command;
using Clock = std::chrono::steady_clock;

class Rails : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
    const auto up = lab("up");
    if (up.code != 0) {
      lab("down");
      GTEST_SKIP() << "no network namespaces here: " << up.err;
    }
  }
  void TearDown() override {
    if (geteuid() == 0) lab("down");
  }

  std::string lab_command(const std::string& what) const {
    return "NHOSTS=2 LABPREFIX=at" + std::to_string(getpid()) +
           " " ADAPTRA_SOURCE_DIR "/tests/lab/netlab.sh " + what;
  }
  CommandResult lab(const std::string& what) const { return run_command(lab_command(what), 30); }

  std::string deck() const {
    std::string text;
    for (int i = 0; i < 4000; ++i) text += "over the rails " + std::to_string(i * i % 89) + "\n";
    return folder_.write("deck.toml", R"(
[model]
layers = 2
channels = 64
heads = 4
vocabulary = 300
context_tokens = 64
[training]
steps = 300
microbatches = 6
microbatch_sequences = 8
[parallel]
pipeline = 2
[run]
peer_deadline_s = 10
[transport]
rails = ["rail0", "rail1"]
rail_deadline_s = 0.4
checksum = true
[data]
train = [")" + folder_.write("text.txt", text) +
                                          "\"]\n");
  }

  CommandResult train(const std::string& name, const std::string& overrides = "") const {
    return run_command(
        lab_command("mpirun h0,h1 -n 2 " ADAPTRA_BIN_DIR "/adaptra-train " + deck() + " " +
                    overrides + " --output-dir " + (folder_.path() / name).string()),
        240);
  }

  /// Steps that the run has logged so far.
  int steps_of(const std::string& name) const {
    const std::string log = read_text(folder_.path() / name / "log.jsonl");
    return static_cast<int>(std::count(log.begin(), log.end(), '\n'));
  }

  /// Trains and, meanwhile, does each thing to the network once its step is reached.
  CommandResult train_with(const std::string& name,
                           const std::vector<std::pair<int, std::string>>& events) {
    std::atomic<bool> ended{false};
    done_ = 0;
    std::thread operator_at_work([&] {
      for (const auto& [step, what] : events) {
        const auto limit = Clock::now() + std::chrono::seconds(200);
        while (!ended && steps_of(name) < step && Clock::now() < limit) {
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        if (ended) return;
        const auto done = lab(what);
        EXPECT_EQ(done.code, 0) << what << done.err;
        ++done_;
      }
    });
    const auto result = train(name);
    ended = true;
    operator_at_work.join();
    EXPECT_EQ(done_, static_cast<int>(events.size())) << "the run was over before all was done";
    return result;
  }

  std::string bits(const std::string& name) const {
    std::istringstream lines(read_text(folder_.path() / name / "log.jsonl"));
    std::string text;
    for (std::string line; std::getline(lines, line);) {
      const auto entry = nlohmann::json::parse(line);
      for (const char* key : {"step", "loss", "grad_norm", "weights"}) {
        if (entry.contains(key)) text += std::string(key) + "=" + entry[key].dump() + " ";
      }
      text += "\n";
    }
    return text;
  }

  testing_support::TemporaryFolder folder_;
  int done_ = 0;
};

TEST_F(Rails, WhateverHappensToARailTheBitsAreTheSame) {
  const auto healthy = train("healthy");
  ASSERT_EQ(healthy.code, 0) << healthy.out << healthy.err;
  EXPECT_THAT(healthy.out, testing::HasSubstr("tcp on rail0, tcp on rail1"));
  ASSERT_EQ(steps_of("healthy"), 301);

  const auto throttled =
      train_with("throttled", {{20, "rate h0 rail0 50mbit"}, {50, "rate h0 rail0 off"}});
  ASSERT_EQ(throttled.code, 0) << throttled.err;
  EXPECT_EQ(bits("throttled"), bits("healthy"));

  const auto down = train_with("down", {{20, "port h1 rail0 down"}, {60, "port h1 rail0 up"}});
  ASSERT_EQ(down.code, 0) << down.err;
  EXPECT_THAT(down.err, testing::HasSubstr("rail 0 (tcp on rail0) is down"));
  EXPECT_EQ(bits("down"), bits("healthy"));

  std::vector<std::pair<int, std::string>> flapping;
  for (int i = 0; i < 5; ++i) {
    const std::string rail = i % 2 == 0 ? "rail0" : "rail1";
    flapping.emplace_back(10 + 15 * i, "link h0 " + rail + " down; sleep 1; " +
                                           lab_command("link h0 " + rail + " up; sleep 2"));
  }
  const auto flapped = train_with("flapped", flapping);
  ASSERT_EQ(flapped.code, 0) << flapped.err;
  EXPECT_EQ(bits("flapped"), bits("healthy"));
}

TEST_F(Rails, WithoutAnyRailBothRanksEndAndTheLinkIsNamed) {
  const auto lost = train_with("lost", {{20, "port h1 rail0 down"}, {21, "port h1 rail1 down"}});
  EXPECT_NE(lost.code, 0);
  EXPECT_NE(lost.code, 124) << "it hung";
  EXPECT_THAT(lost.err, testing::HasSubstr("link 0 to stage"));
}

}  // namespace
}  // namespace adaptra
