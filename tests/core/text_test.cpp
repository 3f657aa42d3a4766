#include "core/text.hpp"

#include <gtest/gtest.h>

namespace adaptra {
namespace {

TEST(NearestName, FindsTyposOnly) {
  const std::vector<std::string> known = {"layers", "heads", "hidden_channels"};
  EXPECT_EQ(nearest_name("layer", known), "layers");
  EXPECT_EQ(nearest_name("hiden_channels", known), "hidden_channels");
  EXPECT_EQ(nearest_name("quite_other", known), "");
}

TEST(Format, Quantities) {
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(std::uint64_t{5} << 40), "5.00 TiB");
  EXPECT_EQ(format_count(17), "17");
  EXPECT_EQ(format_count(124439808), "124.44 M");
  EXPECT_EQ(format_duration_s(62.4), "01:02");
  EXPECT_EQ(format_duration_s(3723), "1:02:03");
}

}  // namespace
}  // namespace adaptra
