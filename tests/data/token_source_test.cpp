#include "data/token_source.hpp"

#include "core/error.hpp"
#include "support/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adaptra::data {
namespace {

using ::testing::HasSubstr;
using testing_support::TemporaryFolder;

std::string tokens16(const std::vector<int>& ids) {
  std::string bytes;
  for (const int id : ids) {
    bytes += static_cast<char>(id & 0xff);
    bytes += static_cast<char>(id >> 8);
  }
  return bytes;
}

std::string refusal(const std::string& kind, const std::vector<std::string>& paths,
                    std::int64_t vocabulary = 50257) {
  try {
    const auto source = open_tokens(kind, paths, vocabulary);
    std::vector<std::int32_t> all(static_cast<std::size_t>(source->size()));
    source->copy(0, all);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
    return error.what();
  }
  return "";
}

TEST(TextTokens, FoldersAreWalkedInOrderHiddenAndBinaryFilesSkipped) {
  const TemporaryFolder folder;
  folder.write("b.txt", "BC");
  folder.write("a/z.txt", "A");
  folder.write("empty.txt", "");
  folder.write("binary.o", std::string("x\0y", 3));
  folder.write(".git/config", "secret");
  const auto source = open_tokens("text", {folder.path().string()}, 256);
  ASSERT_EQ(source->size(), 3);
  std::vector<std::int32_t> all(3);
  source->copy(0, all);
  EXPECT_EQ(all, (std::vector<std::int32_t>{'A', 'B', 'C'}));
  std::vector<std::int32_t> across(2);  // across the border of two files
  source->copy(0, across);
  EXPECT_EQ(across, (std::vector<std::int32_t>{'A', 'B'}));
}

TEST(TextTokens, BytesAreUnsigned) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.txt", "\xff\xfe");
  const auto source = open_tokens("text", {file}, 256);
  std::vector<std::int32_t> all(2);
  source->copy(0, all);
  EXPECT_EQ(all, (std::vector<std::int32_t>{255, 254}));
}

TEST(NanogptTokens, ReadsGlobsInOrderAcrossFiles) {
  const TemporaryFolder folder;
  folder.write("t_2.bin", tokens16({300, 50256}));
  folder.write("t_1.bin", tokens16({1, 2, 3}));
  const auto source = open_tokens("nanogpt", {(folder.path() / "t_*.bin").string()}, 50257);
  std::vector<std::int32_t> all(5);
  source->copy(0, all);
  EXPECT_EQ(all, (std::vector<std::int32_t>{1, 2, 3, 300, 50256}));
  std::vector<std::int32_t> part(3);
  source->copy(2, part);
  EXPECT_EQ(part, (std::vector<std::int32_t>{3, 300, 50256}));
}

TEST(NanogptTokens, BadFilesAreRefusedByNameAndOffset) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal("nanogpt", {folder.write("odd.bin", "abc")}), HasSubstr("odd.bin: 3 bytes"));
  EXPECT_THAT(refusal("nanogpt", {folder.write("empty.bin", "")}), HasSubstr("is empty"));
  EXPECT_THAT(refusal("nanogpt", {folder.write("big.bin", tokens16({5, 6, 7000}))}, 1000),
              testing::AllOf(HasSubstr("big.bin: token 7000 at byte 4"), HasSubstr("1000")));
  const int shard = 20240520;
  EXPECT_THAT(
      refusal("nanogpt",
              {folder.write("shard.bin", std::string(reinterpret_cast<const char*>(&shard), 4))}),
      HasSubstr("llm.c token shard"));
  folder.write("meg.idx", "MMIDIDX");
  EXPECT_THAT(refusal("nanogpt", {folder.write("meg.bin", tokens16({1, 2}))}),
              HasSubstr("Megatron"));
  EXPECT_THAT(refusal("nanogpt", {"no/such/*.bin"}), HasSubstr("no/such/*.bin"));
  EXPECT_THAT(refusal("text", {folder.write("none.txt", "")}), HasSubstr("no text"));
}

TEST(TokenSource, FingerprintChangesWithTheFiles) {
  const TemporaryFolder folder;
  const auto a = folder.write("a.txt", "abc");
  const auto b = folder.write("b.txt", "abcd");
  const auto print = [](const std::vector<std::string>& paths) {
    return open_tokens("text", paths, 256)->fingerprint();
  };
  EXPECT_EQ(print({a, b}), print({a, b}));
  EXPECT_NE(print({a, b}), print({b, a}));
  EXPECT_NE(print({a}), print({b}));
}

}  // namespace
}  // namespace adaptra::data
