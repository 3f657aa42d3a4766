#include "data/segment_tokens.hpp"

#include "data/token_files.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <random>

namespace adaptra::data {
namespace {

using namespace testing_support;

TEST(SegmentTokens, AnyPartEqualsThatPartOfTheWhole) {
  const TemporaryFolder folder;
  std::vector<MappedFile> files;
  files.emplace_back(folder.write("a", packed<std::uint16_t>({0, 1, 2, 300, 4})));
  files.emplace_back(folder.write("b", "x" + packed<std::int32_t>({5, 6, 70000})));  // unaligned
  const SegmentTokens source(std::move(files),
                             {{0, 4, 3, Stored::u16},
                              {1, 1, 3, Stored::i32},
                              {0, 0, 2, Stored::u16},
                              {1, 0, 1, Stored::u8}},
                             100000);
  const std::vector<std::int32_t> all{2, 300, 4, 5, 6, 70000, 0, 1, 'x'};
  ASSERT_EQ(source.size(), static_cast<std::int64_t>(all.size()));
  for (std::size_t begin = 0; begin < all.size(); ++begin) {
    for (std::size_t end = begin; end <= all.size(); ++end) {
      std::vector<std::int32_t> part(end - begin);
      source.copy(static_cast<std::int64_t>(begin), part);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + static_cast<long>(begin)));
    }
  }
}

}  // namespace
}  // namespace adaptra::data
