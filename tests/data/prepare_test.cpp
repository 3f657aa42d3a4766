#include "data/prepare.hpp"

#include "core/error.hpp"
#include "data/byte_pairs.hpp"
#include "data/token_source.hpp"
#include "support/command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adaptra::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::TemporaryFolder;

constexpr const char* vocabulary = ADAPTRA_TEST_DATA "/data/small_bpe/vocab.json";
constexpr const char* merges = ADAPTRA_TEST_DATA "/data/small_bpe/merges.txt";

std::vector<std::int32_t> read_all(const std::string& kind, const std::string& path) {
  const auto source = open_tokens(kind, {path}, 65536);
  std::vector<std::int32_t> all(static_cast<std::size_t>(source->size()));
  source->copy(0, all);
  return all;
}

Error failure(const PrepareSettings& settings) {
  try {
    prepare_shards(settings);
  } catch (const Error& error) {
    return error;
  }
  return {ExitCode::done, "accepted"};
}

TEST(PrepareShards, BytesAreTheTokensOfTheTextKind) {
  const TemporaryFolder folder;
  folder.write("in/a.txt", "first document\xff");
  folder.write("in/b/c.txt", "second");
  folder.write("in/binary", std::string("\0", 1));
  PrepareSettings settings;
  settings.paths = {(folder.path() / "in").string()};
  settings.prefix = (folder.path() / "out/own").string();
  settings.shard_tokens = 5;
  settings.validation_tokens = 3;
  const auto prepared = prepare_shards(settings);
  EXPECT_EQ(prepared.documents, 2);
  EXPECT_EQ(prepared.tokens, 21);
  ASSERT_EQ(prepared.shards.size(), 5U);  // 3, then 18 in fives
  EXPECT_EQ(prepared.shards[0].path, settings.prefix + "_val_000000.bin");
  EXPECT_EQ(prepared.shards[4].path, settings.prefix + "_train_000004.bin");
  EXPECT_EQ(prepared.shards[4].tokens, 3);
  auto all = read_all("llmc", settings.prefix + "_val_*.bin");
  const auto train = read_all("llmc", settings.prefix + "_train_*.bin");
  all.insert(all.end(), train.begin(), train.end());
  EXPECT_EQ(all, read_all("text", settings.paths[0]));
}

TEST(PrepareShards, AMarkStandsBeforeEachDocument) {
  const TemporaryFolder folder;
  PrepareSettings settings;
  settings.paths = {folder.write("a.txt", "one link##two stages##")};
  settings.prefix = (folder.path() / "x").string();
  settings.tokens = TokenKind::gpt2;
  settings.vocabulary = vocabulary;
  settings.merges = merges;
  settings.document_separator = "##";
  EXPECT_EQ(prepare_shards(settings).documents, 2);
  auto pairs = BytePairs::read(vocabulary, merges);
  std::vector<std::int32_t> expected;
  for (const auto* text : {"one link", "two stages"}) {
    expected.push_back(*pairs.end_of_text());
    const auto ids = pairs.encode(text);
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(read_all("llmc", settings.prefix + "_train_000001.bin"), expected);
}

TEST(PrepareShards, ExistingShardsAreKeptUnlessReplaced) {
  const TemporaryFolder folder;
  PrepareSettings settings;
  settings.paths = {folder.write("a.txt", "abcdef")};
  settings.prefix = (folder.path() / "x").string();
  settings.shard_tokens = 2;
  folder.write("x_train_notes.bin", "not ours");
  EXPECT_EQ(prepare_shards(settings).shards.size(), 3U);
  EXPECT_THAT(failure(settings).what(),
              AllOf(HasSubstr("x_train_00000"), HasSubstr("--overwrite")));
  EXPECT_EQ(failure(settings).code(), ExitCode::file);
  settings.shard_tokens = 6;
  settings.existing = ExistingShards::replace;
  prepare_shards(settings);
  EXPECT_EQ(read_all("llmc", settings.prefix + "_train_0*.bin").size(), 6U);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "x_train_notes.bin"));
}

TEST(PrepareShards, BadSettingsAndFilesAreExplained) {
  const TemporaryFolder folder;
  PrepareSettings good;
  good.paths = {folder.write("a.txt", "abcdef")};
  good.prefix = (folder.path() / "x").string();
  auto bad = good;
  bad.tokens = TokenKind::gpt2;
  EXPECT_THAT(failure(bad).what(), HasSubstr("--vocab"));
  EXPECT_EQ(failure(bad).code(), ExitCode::usage);
  bad = good;
  bad.vocabulary = vocabulary;
  EXPECT_THAT(failure(bad).what(), HasSubstr("--tokens gpt2"));
  bad = good;
  bad.shard_tokens = 0;
  EXPECT_THAT(failure(bad).what(), HasSubstr("--shard-tokens 0"));
  bad = good;
  bad.validation_tokens = 6;
  EXPECT_THAT(failure(bad).what(), HasSubstr("nothing is left"));
  bad = good;
  bad.prefix = "/dev/full/x";
  EXPECT_EQ(failure(bad).code(), ExitCode::file);
}

std::string program(const std::string& arguments) {
  return ADAPTRA_BIN_DIR "/adaptra-data " + arguments;
}

TEST(AdaptraData, PreparesAndInspects) {
  const TemporaryFolder folder;
  const auto text = folder.write("a.txt", "The pipeline has stages.\nAnd links.\n");
  const auto prefix = (folder.path() / "x").string();
  const auto made = testing_support::run_command(program("prepare " + text + " -o " + prefix));
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("36 tokens"), HasSubstr("data.kind = \"llmc\"")));
  const auto told =
      testing_support::run_command(program("inspect " + prefix + "_train_000001.bin"));
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_THAT(told.out, AllOf(HasSubstr("kind    llmc"), HasSubstr("tokens  36"),
                              HasSubstr("stages.\\nAnd")));
}

TEST(AdaptraData, ExitCodesSayWhatIsWrong) {
  const TemporaryFolder folder;
  EXPECT_EQ(testing_support::run_command(program("")).code, 2);
  EXPECT_EQ(testing_support::run_command(program("prepare a -o b --tokens words")).code, 2);
  EXPECT_EQ(testing_support::run_command(program("--help")).code, 0);
  const auto odd = folder.write("odd.bin", "abc");
  const auto told = testing_support::run_command(program("inspect " + odd));
  EXPECT_EQ(told.code, 6);
  EXPECT_THAT(told.err, HasSubstr("odd.bin: 3 bytes"));
}

}  // namespace
}  // namespace adaptra::data
