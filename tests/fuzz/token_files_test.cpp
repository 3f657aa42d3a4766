// The readers of token files against random damage to good files (the fuzz target's little brother,
// for every compiler).

#include "data/token_files.hpp"

#include "fuzz/read_tokens.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

namespace adaptra::testing_support {
namespace {

int scale() {
  const char* text = std::getenv("ADAPTRA_TEST_SCALE");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

std::string damaged(std::string bytes, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  static constexpr std::int64_t telling[] = {0,  1,   -1,        2,       0x7fffffff, 0x80000000LL,
                                             34, 255, 1LL << 62, 1 << 16, 20240520,   INT64_MIN};
  for (auto hits = 1 + below(3); hits > 0; --hits) {
    // Half of the hits go to the first 64 bytes, where the headers are.
    const auto at =
        below(random() % 2 == 0 ? std::min<std::size_t>(bytes.size(), 64) : bytes.size());
    switch (below(5)) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.insert(at, std::string(1 + below(9), static_cast<char>(random())));
        break;
      case 2:
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 3: {
        const auto value = packed<std::int64_t>({telling[below(std::size(telling))]});
        bytes.replace(at, std::min<std::size_t>(value.size(), bytes.size() - at), value);
        break;
      }
      default:
        break;  // sometimes nothing at all: the good file must be accepted
    }
  }
  return bytes;
}

TEST(TokenFiles, AnyDamageIsRefusedOrHarmless) {
  const TemporaryFolder folder;
  std::mt19937_64 random(7);
  const std::string tokens = packed<std::uint16_t>({50256, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const std::string index = megatron_index(8, {{4, 0}, {3, 8}, {0, 0}, {3, 14}});
  const std::pair<const char*, std::string> good[] = {
      {"nanogpt", tokens}, {"llmc", llmc_shard({50256, 1, 2, 3, 4})}, {"megatron", tokens}};
  for (const auto& [kind, bytes] : good) {
    int accepted = 0, refused = 0;
    for (int i = 0; i < 500 * scale(); ++i) {
      const bool in_index = std::string(kind) == "megatron" && random() % 4 != 0;
      const auto outcome = read_tokens(folder, kind, in_index ? bytes : damaged(bytes, random),
                                       in_index ? damaged(index, random) : index);
      (outcome == ReadOutcome::accepted ? accepted : refused) += 1;
    }
    EXPECT_GT(accepted, 10) << kind;
    EXPECT_GT(refused, 80) << kind;
  }
}

}  // namespace
}  // namespace adaptra::testing_support
