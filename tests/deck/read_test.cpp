#include "deck/read.hpp"

#include "core/error.hpp"
#include "deck/keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace adaptra::deck {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string data_line = "[data]\ntrain = [\"docs\"]\n";

std::string problems_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_deck(text, "deck.toml", overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "";
}

TEST(Deck, EmptySectionsMeanDefaults) {
  const Deck deck = parse_deck(data_line, "deck.toml");
  EXPECT_EQ(deck.model.layers, 12);
  EXPECT_EQ(deck.sequence_tokens(), 1024);
  EXPECT_EQ(deck.decay_steps(), deck.training.steps);
}

TEST(Deck, AcceptsBomCrlfAndIntegersForFloats) {
  const Deck deck = parse_deck(
      "\xEF\xBB\xBF[data]\r\ntrain = \"docs\"\r\n[training]\r\nlearning_rate = 1\r\n", "deck.toml");
  EXPECT_EQ(deck.data.train, std::vector<std::string>{"docs"});
  EXPECT_EQ(deck.training.learning_rate, 1.0);
}

TEST(Deck, WhatIsWrittenReadsBackEqual) {
  Deck deck = parse_deck(data_line, "deck.toml");
  deck.run.name = "a \"quoted\" \\ name\n\ttabbed";
  deck.training.learning_rate = 0.1 + 0.2;
  deck.training.adam_epsilon = 1e-8;
  deck.data.train = {"a b", "c"};
  deck.data.shuffle = false;
  const Deck again = parse_deck(write_deck(deck), "used_config.toml");
  for (const auto& key : keys()) EXPECT_EQ(key.get(again), key.get(deck)) << key.full_name();
}

TEST(Deck, OverridesWinAndAreTyped) {
  const Deck deck =
      parse_deck(data_line, "deck.toml",
                 {"training.steps=7", "run.output_dir=runs/x", "run.name=12",
                  "data.train=[\"a\",\"b\"]", "data.shuffle=false", "training.clip_norm=2"});
  EXPECT_EQ(deck.training.steps, 7);
  EXPECT_EQ(deck.run.output_dir, "runs/x");
  EXPECT_EQ(deck.run.name, "12");
  EXPECT_EQ(deck.data.train, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(deck.data.shuffle);
  EXPECT_EQ(deck.training.clip_norm, 2.0);
}

// One bad deck per message.
struct Bad {
  std::string text;
  std::vector<std::string> parts;
};

class BadDeck : public ::testing::TestWithParam<Bad> {};

TEST_P(BadDeck, IsRefusedWithAnExplanation) {
  const std::string message = problems_of(GetParam().text);
  for (const auto& part : GetParam().parts) EXPECT_THAT(message, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    Messages, BadDeck,
    ::testing::Values(
        Bad{"[model]\nlayer = 3\n", {"deck.toml:2", "model.layer", "unknown key", "model.layers"}},
        Bad{"[modell]\nlayers = 3\n", {"deck.toml:2", "modell.layers", "model.layers"}},
        Bad{"[nonsense]\nx = 3\n", {"unknown key", "sections are run"}},
        Bad{"[run]\nlearning_rate = 3\n", {"training.learning_rate"}},
        Bad{"[nonsense]\n", {"deck.toml:1", "nonsense"}},
        Bad{"steps = 3\n", {"deck.toml:1", "steps", "unknown key"}},
        Bad{"[model]\n\nlayers = 0\n", {"deck.toml:3", "model.layers = 0", "1 to 10000"}},
        Bad{"[model]\nlayers = 2.5\n", {"deck.toml:2", "model.layers = 2.5", "integer"}},
        Bad{"[model]\nlayers = \"two\"\n", {"must be an integer", "default: 12"}},
        Bad{"[training]\nlearning_rate = nan\n", {"training.learning_rate = nan", "out of range"}},
        Bad{"[model]\nprecision = \"bf61\"\n", {"fp32 | bf16", "did you mean \"bf16\""}},
        Bad{"[data]\ntrain = [1]\n", {"data.train", "text in quotes"}},
        Bad{"[data]\nshuffle = 1\n", {"data.shuffle = 1", "true or false"}},
        Bad{"[model]\nlayers = 3\nlayers = 4\n", {"deck.toml:3", "not valid TOML"}},
        Bad{"[model\n", {"deck.toml:1", "not valid TOML"}},
        Bad{data_line + "[model]\nchannels = 100\nheads = 3\n",
            {"deck.toml:4", "model.channels = 100", "model.heads = 3"}},
        Bad{data_line + "[training]\nsequence_tokens = 2000\n",
            {"training.sequence_tokens = 2000", "model.context_tokens = 1024"}},
        Bad{data_line + "[parallel]\npipeline = 13\n",
            {"parallel.pipeline = 13", "model.layers = 12"}},
        Bad{data_line + "[parallel]\ntensor = 2\n", {"parallel.tensor = 2", "out of range"}},
        Bad{data_line + "[parallel]\norder = [\"data\"]\n", {"parallel.order", "once each"}},
        Bad{data_line + "[model]\nvocabulary = 200\n", {"model.vocabulary = 200", "256"}},
        Bad{"[model]\nlayers = 2\n", {"data.train", "no training data"}},
        Bad{data_line + "[evaluation]\nevery_steps = 5\n",
            {"evaluation.every_steps = 5", "data.validation"}},
        Bad{data_line + "[training]\nminimum_learning_rate = 1\n",
            {"training.minimum_learning_rate"}},
        Bad{data_line + "[training]\nwarmup_steps = 1000\ndecay_steps = 100\n",
            {"training.warmup_steps = 1000", "100"}}));

TEST(Deck, AllProblemsComeInOneReport) {
  const std::string message = problems_of("[model]\nlayer = 3\nheads = 0\n[trainign]\nsteps = 1\n",
                                          {"nonsense", "run.nme=x"});
  EXPECT_THAT(message,
              AllOf(HasSubstr("deck.toml:2"), HasSubstr("deck.toml:3"), HasSubstr("deck.toml:5"),
                    HasSubstr("'nonsense': not of the form"), HasSubstr("command line: run.nme")));
}

TEST(Deck, AMissingFileIsExplained) {
  try {
    read_deck("no/such/deck.toml");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("no/such/deck.toml"));
  }
}

TEST(Deck, EveryDeckInInputsIsValid) {
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ADAPTRA_SOURCE_DIR "/inputs")) {
    if (entry.path().extension() != ".toml") continue;
    EXPECT_NO_THROW(read_deck(entry.path().string())) << entry.path();
    ++seen;
  }
  EXPECT_GE(seen, 5);
}

}  // namespace
}  // namespace adaptra::deck
