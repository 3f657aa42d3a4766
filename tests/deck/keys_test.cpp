#include "deck/keys.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

namespace adaptra::deck {
namespace {

TEST(Keys, AreUniqueDocumentedAndInAKnownSection) {
  std::set<std::string> seen, known;
  for (const auto& section : sections()) known.insert(section.name);
  for (const auto& key : keys()) {
    EXPECT_TRUE(seen.insert(key.full_name()).second) << key.full_name();
    EXPECT_TRUE(known.count(key.section)) << key.full_name();
    EXPECT_GT(key.doc.size(), 10U) << key.full_name();
    EXPECT_EQ(find_key(key.full_name()), &key);
  }
}

TEST(Keys, NumbersHaveRangesThatHoldTheirDefaults) {
  for (const auto& key : keys()) {
    const Value value = key.default_value();
    if (value.index() > 1) continue;
    const double number = value.index() == 0 ? static_cast<double>(std::get<std::int64_t>(value))
                                             : std::get<double>(value);
    EXPECT_FALSE(key.range_text().empty()) << key.full_name();
    EXPECT_GE(number, key.minimum) << key.full_name();
    EXPECT_LE(number, key.maximum) << key.full_name();
  }
}

TEST(ReferencePage, IsWhatTheTableSays) {
  std::ifstream file(ADAPTRA_SOURCE_DIR "/docs/deck_reference.md");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(text.str() == reference_page())
      << "docs/deck_reference.md is not up to date: adaptra-train --deck-reference > "
         "docs/deck_reference.md";
}

}  // namespace
}  // namespace adaptra::deck
