#include "core/error.hpp"

#include <gtest/gtest.h>

namespace adaptra {
namespace {

TEST(Status, CarriesTheErrorAndThrowsIt) {
  const Status good;
  EXPECT_TRUE(good.ok());
  EXPECT_NO_THROW(good.throw_if_error());

  const Status bad = Error(ExitCode::file, "truncated");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code(), ExitCode::file);
  EXPECT_THROW(bad.throw_if_error(), Error);
}

TEST(Result, HoldsAValueOrAnError) {
  Result<int> good = 7;
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*good, 7);
  EXPECT_TRUE(good.status().ok());

  const Result<int> bad = Error(ExitCode::usage, "no");
  EXPECT_FALSE(bad.ok());
  EXPECT_STREQ(bad.status().error().what(), "no");
}

TEST(Check, NamesThePlaceAndTheCondition) {
  try {
    check_failed("a == b", "x.cpp", 12);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::internal);
    EXPECT_NE(std::string(error.what()).find("x.cpp:12"), std::string::npos);
  }
}

}  // namespace
}  // namespace adaptra
