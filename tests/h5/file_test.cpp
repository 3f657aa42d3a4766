#include "h5/file.hpp"

#include "core/error.hpp"
#include "support/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace {

using namespace adaptra;
using testing::HasSubstr;

TEST(H5File, ScalarsAndTextsComeBack) {
  const testing_support::TemporaryFolder folder;
  const auto path = folder.path() / "a.h5";
  auto file = h5::File::create(path, 4096);
  const std::string text = "learning_rate = 0.1\n# \xc3\xa4\xc3\xb6\n" + std::string(100'000, 'x');
  file.write_text("/state/texts/deck", text);
  file.write_text("/state/texts/empty", "");
  file.write_integer("/state/step", -(std::int64_t{1} << 60) - 1);
  file.write_number("/state/rate", 0.1);
  file.close();
  const auto again = h5::File::open(path);
  EXPECT_EQ(again.read_text("/state/texts/deck"), text);
  EXPECT_EQ(again.read_text("/state/texts/empty"), "");
  EXPECT_EQ(again.read_integer("/state/step"), -(std::int64_t{1} << 60) - 1);
  EXPECT_EQ(again.read_number("/state/rate"), 0.1);
  EXPECT_THAT(again.list("/state/texts"), testing::ElementsAre("deck", "empty"));
  EXPECT_TRUE(again.has("/state/step"));
  EXPECT_FALSE(again.has("/other/step"));
}

TEST(H5File, ArraysLieWhereTheirPlaceSays) {
  const testing_support::TemporaryFolder folder;
  const auto path = folder.path() / "a.h5";
  auto file = h5::File::create(path, 4096);
  const std::array<std::int64_t, 2> shape = {3, 5};
  const auto place = file.reserve_floats("/weights/w", shape);
  EXPECT_EQ(place.bytes, 60u);
  std::vector<float> values(15);
  for (int i = 0; i < 15; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i);
  file.write_rows("/weights/w", 1, 2, std::span(values).subspan(5), h5::Transfer::independent);
  file.close();
  std::ifstream raw(path, std::ios::binary);
  raw.seekg(static_cast<std::streamoff>(place.offset) + 20);
  std::vector<float> read(10);
  raw.read(reinterpret_cast<char*>(read.data()), 40);
  EXPECT_EQ(read, std::vector<float>(values.begin() + 5, values.end()));
  EXPECT_EQ(h5::File::open(path).place("/weights/w").offset, place.offset);
}

TEST(H5File, ErrorsNameTheFileAndHdf5sReason) {
  const testing_support::TemporaryFolder folder;
  const auto path = folder.write("text.h5", "no HDF5 at all");
  try {
    (void)h5::File::open(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr(path), HasSubstr("signature")));
  }
  auto file = h5::File::create(folder.path() / "b.h5", 0);
  EXPECT_THROW((void)file.read_integer("/missing"), Error);
}

}  // namespace
