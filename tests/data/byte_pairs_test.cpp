#include "data/byte_pairs.hpp"

#include "core/error.hpp"
#include "support/command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <random>

namespace adaptra::data {
namespace {

using ::testing::HasSubstr;

std::string small(const std::string& name) {
  return testing_support::read_text(ADAPTRA_TEST_DATA "/data/small_bpe/" + name);
}

std::string refusal(const std::string& vocabulary, const std::string& merges) {
  try {
    const BytePairs pairs(vocabulary, "vocab.json", merges, "merges.txt");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
    return error.what();
  }
  return "accepted";
}

TEST(BytePairs, IdsEqualTiktokens) {  // tests/data/bpe_golden.py
  BytePairs pairs(small("vocab.json"), "vocab.json", small("merges.txt"), "merges.txt");
  const auto golden = nlohmann::json::parse(small("golden.json"));
  ASSERT_GT(golden.size(), 25U);
  for (const auto& entry : golden) {
    const auto text = entry.at("text").get<std::string>();
    const auto ids = entry.at("ids").get<std::vector<std::int32_t>>();
    EXPECT_EQ(pairs.encode(text), ids) << text;
    EXPECT_EQ(pairs.encode(text), ids) << "the second time: " << text;
    EXPECT_EQ(pairs.decode(ids), text);
  }
  EXPECT_EQ(pairs.end_of_text(), pairs.vocabulary() - 1);
}

TEST(BytePairs, AnyBytesComeBack) {
  BytePairs pairs(small("vocab.json"), "vocab.json", small("merges.txt"), "merges.txt");
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    std::string text(random() % 300, ' ');
    for (auto& c : text) c = static_cast<char>(random() % (i % 2 == 0 ? 256 : 128));
    EXPECT_EQ(pairs.decode(pairs.encode(text)), text);
  }
  const std::string long_piece(200'000, 'e');  // one piece, without quadratic time
  EXPECT_EQ(pairs.decode(pairs.encode(long_piece)), long_piece);
}

TEST(BytePairs, BadFilesAreRefusedByNameAndLine) {
  const auto vocabulary = small("vocab.json"), merges = small("merges.txt");
  EXPECT_EQ(refusal(vocabulary, merges), "accepted");
  EXPECT_EQ(refusal(vocabulary, "#version: 0.2\r\n\r\n"), "accepted");
  EXPECT_THAT(refusal("[1]", merges), HasSubstr("vocab.json: no JSON object"));
  EXPECT_THAT(refusal(vocabulary.substr(0, 100), merges), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal("{\"a\": -1}", merges), HasSubstr("\"a\" has the id -1"));
  EXPECT_THAT(refusal("{\"a\": 65536}", merges), HasSubstr("has the id 65536"));
  EXPECT_THAT(refusal("{\"a\": 1, \"b\": 1}", merges), HasSubstr("has the id 1"));
  EXPECT_THAT(refusal("{\"a\": 1}", merges), HasSubstr("no token for byte 0"));
  EXPECT_THAT(refusal(vocabulary, "#version: 0.2\nabc\n"), HasSubstr("merges.txt:2: \"abc\""));
  EXPECT_THAT(refusal(vocabulary, "a b c\n"), HasSubstr("merges.txt:1"));
  EXPECT_THAT(refusal(vocabulary, "a zzzz\n"), HasSubstr("not in the vocabulary"));
  EXPECT_THAT(refusal(vocabulary, "~ ~\n"), HasSubstr("what it makes"));
  EXPECT_THAT(refusal(vocabulary, "i n\ni n\n"), HasSubstr("twice"));
}

TEST(BytePairs, DamagedFilesAreRefusedOrHarmless) {
  const auto vocabulary = small("vocab.json"), merges = small("merges.txt");
  std::mt19937_64 random(11);
  int accepted = 0;
  for (int i = 0; i < 300; ++i) {
    auto v = vocabulary, m = merges;
    auto& hit = i % 3 == 0 ? v : m;
    hit[random() % hit.size()] = static_cast<char>(random());
    if (i % 5 == 0) hit.resize(random() % hit.size());
    try {
      BytePairs pairs(v, "v", m, "m");
      const std::string text = "The pipeline's stages; 42 links \xff\n";
      EXPECT_EQ(pairs.decode(pairs.encode(text)), text);
      ++accepted;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::file);
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 300);
}

}  // namespace
}  // namespace adaptra::data
