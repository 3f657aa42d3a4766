#include "data/split_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace adaptra::data {
namespace {

using Pieces = std::vector<std::string>;

Pieces pieces(std::string_view text) {
  Pieces all;
  while (!text.empty()) {
    all.emplace_back(text.substr(0, first_piece(text)));
    text.remove_prefix(all.back().size());
  }
  return all;
}

TEST(SplitText, FollowsThePublishedPattern) {
  EXPECT_EQ(first_piece(""), 0U);
  EXPECT_EQ(pieces("It's 12ab, ok?!"), (Pieces{"It", "'s", " 12", "ab", ",", " ok", "?!"}));
  EXPECT_EQ(pieces("  a"), (Pieces{" ", " a"}));
  EXPECT_EQ(pieces("a  "), (Pieces{"a", "  "}));
  EXPECT_EQ(pieces("\n\nfoo"), (Pieces{"\n", "\n", "foo"}));
  EXPECT_EQ(pieces("''s 'S"), (Pieces{"''", "s", " '", "S"}));
  EXPECT_EQ(pieces("é½\u00a0x"), (Pieces{"é", "½", "\u00a0", "x"}));
}

TEST(SplitText, InvalidBytesAreKeptAsOtherCharacters) {
  for (const std::string bad :
       {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80"}) {
    EXPECT_EQ(pieces("a" + bad + "1"), (Pieces{"a", bad, "1"}));
  }
}

}  // namespace
}  // namespace adaptra::data
