#include "data/formats.hpp"

#include "core/error.hpp"
#include "data/token_files.hpp"
#include "support/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adaptra::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing_support;

using Tokens = std::vector<std::int32_t>;

Tokens all_of(const TokenSource& source) {
  Tokens all(static_cast<std::size_t>(source.size()));
  source.copy(0, all);
  return all;
}

std::string refusal(const std::string& kind, const std::vector<std::string>& paths,
                    std::int64_t vocabulary = 50257) {
  try {
    all_of(*open_tokens(kind, paths, vocabulary));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
    return error.what();
  }
  return "accepted";
}

std::string with(std::string bytes, std::size_t offset, const std::string& patch) {
  return bytes.replace(offset, patch.size(), patch);
}

TEST(LlmcTokens, ReadsShardsOfAGlobOrFolderSorted) {
  const TemporaryFolder folder;
  folder.write("d/x_train_000002.bin", llmc_shard({4, 5}));
  folder.write("d/x_train_000001.bin", llmc_shard({50256, 2, 3}));
  folder.write("d/README.txt", "not data");
  const Tokens expected{50256, 2, 3, 4, 5};
  const auto glob = (folder.path() / "d/x_train_*.bin").string();
  EXPECT_EQ(all_of(*open_tokens("llmc", {glob}, 50257)), expected);
  EXPECT_EQ(all_of(*open_tokens("llmc", {(folder.path() / "d").string()}, 50257)), expected);
  Tokens across(2);
  open_tokens("llmc", {glob}, 50257)->copy(2, across);
  EXPECT_EQ(across, (Tokens{3, 4}));
}

TEST(LlmcTokens, BadShardsAreRefusedByNameAndOffset) {
  const TemporaryFolder folder;
  const auto good = llmc_shard({1, 2, 3});
  const auto says = [&](const std::string& bytes) {
    return refusal("llmc", {folder.write("s.bin", bytes)});
  };
  EXPECT_EQ(says(good), "accepted");
  EXPECT_THAT(says(""), HasSubstr("s.bin: is empty"));
  EXPECT_THAT(says("ab"), HasSubstr("byte 0 is 0"));
  EXPECT_THAT(says(packed<std::uint16_t>({7, 0, 1})),
              AllOf(HasSubstr("byte 0 is 7"), HasSubstr("nanogpt")));
  EXPECT_THAT(says(good.substr(0, 1000)), HasSubstr("shorter than the header"));
  EXPECT_THAT(says(with(good, 4, packed<std::int32_t>({2}))), HasSubstr("version 2 at byte 4"));
  EXPECT_THAT(says(with(good, 8, packed<std::int32_t>({-1}))), HasSubstr("-1 tokens"));
  EXPECT_THAT(says(good.substr(0, 1028)), AllOf(HasSubstr("1028 bytes"), HasSubstr("truncated")));
  EXPECT_THAT(says(good + "x"), AllOf(HasSubstr("1031 bytes"), HasSubstr("damaged")));
  EXPECT_THAT(says(llmc_shard({1, 60000})), HasSubstr("token 60000 at byte 1026"));
}

TEST(LlmcTokens, RelativesAreRefusedByName) {
  const TemporaryFolder folder;
  const std::pair<std::int32_t, const char*> relatives[] = {
      {20240801, "Llama-3"},     {20240522, "evaluation"},      {20240326, "model"},
      {20240327, "debug state"}, {20240527, "optimizer state"}, {20240328, "tokenizer"}};
  for (const auto& [magic, name] : relatives) {
    const auto file =
        folder.write("r.bin", with(llmc_shard({1}), 0, packed<std::int32_t>({magic})));
    EXPECT_THAT(refusal("llmc", {file}), HasSubstr(name));
    EXPECT_THAT(refusal("nanogpt", {file}), HasSubstr(name));
    EXPECT_THROW(sniff_kind(file), Error);
  }
}

TEST(MegatronTokens, AreNamedByPrefixEitherFileOrFolder) {
  const TemporaryFolder folder;
  folder.write("m/a_document.bin", packed<std::uint16_t>({1, 2, 3, 4}));
  folder.write("m/a_document.idx", megatron_index(8, {{3, 0}, {1, 6}}));
  const auto prefix = (folder.path() / "m/a_document").string();
  for (const auto& name :
       {prefix, prefix + ".bin", prefix + ".idx", prefix + ".*", (folder.path() / "m").string()}) {
    EXPECT_EQ(all_of(*open_tokens("megatron", {name}, 50257)), (Tokens{1, 2, 3, 4})) << name;
  }
}

TEST(MegatronTokens, EveryIntegerTypeIsRead) {
  const TemporaryFolder folder;
  const std::pair<std::uint8_t, std::string> types[] = {
      {1, packed<std::uint8_t>({7, 200})},   {2, packed<std::int8_t>({7, 100})},
      {3, packed<std::int16_t>({7, 300})},   {4, packed<std::int32_t>({7, 70000})},
      {5, packed<std::int64_t>({7, 70000})}, {8, packed<std::uint16_t>({7, 60000})}};
  const std::int32_t second[] = {200, 100, 300, 70000, 70000, 60000};
  for (std::size_t i = 0; i < std::size(types); ++i) {
    folder.write("t.bin", types[i].second);
    const auto index = folder.write("t.idx", megatron_index(types[i].first, {{2, 0}}));
    EXPECT_EQ(all_of(*open_tokens("megatron", {index}, 100000)), (Tokens{7, second[i]}));
  }
}

TEST(MegatronTokens, SequencesComeInTheOrderOfTheIndex) {
  const TemporaryFolder folder;
  folder.write("o.bin", packed<std::uint16_t>({10, 11, 12, 13, 14}));
  const auto index = folder.write("o.idx", megatron_index(8, {{2, 6}, {0, 0}, {3, 0}}));
  EXPECT_EQ(all_of(*open_tokens("megatron", {index}, 50257)), (Tokens{13, 14, 10, 11, 12}));
  const MappedFile mapped(index), tokens((folder.path() / "o.bin").string());
  EXPECT_EQ(read_megatron(mapped, tokens, 0).size(), 2U);
}

TEST(MegatronTokens, BadPairsAreRefusedByNameAndOffset) {
  const TemporaryFolder folder;
  const auto good = megatron_index(8, {{2, 0}, {1, 4}});
  const auto says = [&](const std::string& index, std::vector<std::uint16_t> tokens = {1, 2, 3}) {
    folder.write("p.bin", packed(tokens));
    return refusal("megatron", {folder.write("p.idx", index)});
  };
  EXPECT_EQ(says(good), "accepted");
  EXPECT_THAT(says(""), HasSubstr("MMIDIDX is missing"));
  EXPECT_THAT(says(good.substr(0, 20)), HasSubstr("shorter than the header"));
  EXPECT_THAT(says(with(good, 9, packed<std::uint64_t>({2}))), HasSubstr("version 2 at byte 9"));
  EXPECT_THAT(says(with(good, 17, "\x07")), HasSubstr("floating-point"));
  EXPECT_THAT(says(with(good, 17, "\x09")), HasSubstr("unknown type 9 at byte 17"));
  EXPECT_THAT(says(with(good, 18, packed<std::uint64_t>({~0ULL}))), HasSubstr("34 + 12 S + 8 D"));
  EXPECT_THAT(says(good.substr(0, good.size() - 1)), HasSubstr("34 + 12 S + 8 D"));
  EXPECT_THAT(says(with(good, 34, packed<std::int32_t>({-2}))), HasSubstr("length -2 at byte 34"));
  EXPECT_THAT(says(with(good, 50, packed<std::int64_t>({-2}))), HasSubstr("p.bin: 6 bytes"));
  EXPECT_THAT(says(with(good, 66, packed<std::int64_t>({5}))), HasSubstr("border 5 at byte 66"));
  EXPECT_THAT(says(good, {1, 2}), HasSubstr("truncated"));
  EXPECT_THAT(says(good, {1, 2, 3, 4}), HasSubstr("do not belong together"));
  EXPECT_THAT(says(good, {1, 2, 60000}), HasSubstr("token 60000 at byte 4"));
  EXPECT_THAT(says(megatron_index(8, {})), HasSubstr("no sequence"));
  EXPECT_THAT(says(megatron_index(8, {{0, 0}}), {}), HasSubstr("no token"));
  EXPECT_THAT(refusal("megatron", {folder.write("alone.bin", "ab")}), HasSubstr("alone.idx"));
  EXPECT_THAT(refusal("megatron", {folder.write("notes.txt", "ab")}), HasSubstr("prefix"));
  folder.write("neg.bin", packed<std::int32_t>({-5}));
  EXPECT_THAT(refusal("megatron", {folder.write("neg.idx", megatron_index(4, {{1, 0}}))}),
              HasSubstr("token -5 at byte 0"));
}

TEST(SniffKind, TellsTheFormatsApart) {
  const TemporaryFolder folder;
  folder.write("m.bin", packed<std::uint16_t>({1}));
  EXPECT_EQ(sniff_kind(folder.write("m.idx", megatron_index(8, {{1, 0}}))), "megatron");
  EXPECT_EQ(sniff_kind((folder.path() / "m.bin").string()), "megatron");
  EXPECT_EQ(sniff_kind(folder.write("l.bin", llmc_shard({1}))), "llmc");
  EXPECT_EQ(sniff_kind(folder.write("n.bin", packed<std::uint16_t>({1}))), "nanogpt");
  EXPECT_EQ(sniff_kind(folder.write("t.txt", "text")), "text");
}

}  // namespace
}  // namespace adaptra::data
