#include "data/sampler.hpp"

#include "core/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace adaptra::data {
namespace {

/// Token i has id i.
class Counting final : public TokenSource {
 public:
  explicit Counting(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  std::uint64_t fingerprint() const override { return 0; }
  void copy(std::int64_t begin, std::span<std::int32_t> out) const override {
    ASSERT_LE(begin + static_cast<std::int64_t>(out.size()), size_);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<std::int32_t>(begin + static_cast<std::int64_t>(i));
    }
  }

 private:
  std::int64_t size_;
};

TEST(Permute, IsAPermutationOfAnySize) {
  for (const std::uint64_t size : {1, 2, 3, 5, 16, 17, 1000}) {
    for (const std::uint64_t key : {1, 2}) {
      std::set<std::uint64_t> seen;
      for (std::uint64_t i = 0; i < size; ++i) seen.insert(permute(i, size, key));
      EXPECT_EQ(seen.size(), size);
      EXPECT_LT(*seen.rbegin(), size);
    }
  }
}

std::vector<std::int32_t> starts(const Sampler& sampler, const Sampler::Settings& s, int steps) {
  std::vector<std::int32_t> all, tokens, targets;
  for (int step = 1; step <= steps; ++step) {
    for (int k = 0; k < s.microbatches; ++k) {
      for (int r = 0; r < s.replicas; ++r) {
        sampler.read(step, r, k, tokens, targets);
        for (std::size_t b = 0; b < tokens.size();
             b += static_cast<std::size_t>(s.sequence_tokens)) {
          all.push_back(tokens[b]);
          EXPECT_EQ(targets[b], tokens[b] + 1);
        }
      }
    }
  }
  return all;
}

TEST(Sampler, AnEpochHoldsEachSequenceOnceAndEpochsDiffer) {
  const Counting source(10 * 8 + 3);  // 10 sequences
  const Sampler::Settings settings{8, 2, 5, 1, true, 4};
  const Sampler sampler(source, settings);
  ASSERT_EQ(sampler.sequences(), 10);
  const auto drawn = starts(sampler, settings, 2);
  ASSERT_EQ(drawn.size(), 20U);
  const std::vector<std::int32_t> first(drawn.begin(), drawn.begin() + 10),
      second(drawn.begin() + 10, drawn.end());
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 10U);
  EXPECT_EQ(std::set(second.begin(), second.end()).size(), 10U);
  EXPECT_NE(first, second);
}

TEST(Sampler, TwoReplicasReadWhatOneReadsWithTwiceTheMicrobatches) {
  const Counting source(1000);
  const Sampler::Settings one{8, 2, 6, 1, true, 4}, two{8, 2, 3, 2, true, 4};
  EXPECT_EQ(starts(Sampler(source, one), one, 4), starts(Sampler(source, two), two, 4));
}

TEST(Sampler, UnshuffledIsInOrder) {
  const Counting source(33);
  const Sampler::Settings settings{8, 1, 4, 1, false, 4};
  EXPECT_EQ(starts(Sampler(source, settings), settings, 1),
            (std::vector<std::int32_t>{0, 8, 16, 24}));
}

TEST(Sampler, TooLittleDataIsExplained) {
  const Counting source(8);
  try {
    const Sampler sampler(source, {8, 1, 1, 1, true, 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
    EXPECT_THAT(error.what(), testing::HasSubstr("8 tokens"));
  }
}

}  // namespace
}  // namespace adaptra::data
