// adaptra-data prepare|inspect: makes token shards from text, and tells what token files hold.

#include "core/build_info.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "data/prepare.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <map>
#include <string>

namespace {

using namespace adaptra;

constexpr const char* footer = R"(
Examples:
  adaptra-data prepare docs src -o tokens/own
  adaptra-data prepare book.txt -o tokens/book --tokens gpt2 --vocab vocab.json --merges merges.txt
  adaptra-data inspect 'tokens/own_train_*.bin'

Exit codes: 0 done, 2 usage, 6 data file, 70 internal error.)";

void add_prepare(CLI::App& app, data::PrepareSettings& settings, bool& overwrite) {
  auto* command = app.add_subcommand("prepare", "Writes llm.c token shards from text");
  command->add_option("paths", settings.paths, "Text: files, folders, globs")->required();
  command->add_option("-o,--output", settings.prefix, "Prefix of the shards")->required();
  const std::map<std::string, data::TokenKind> kinds{{"bytes", data::TokenKind::bytes},
                                                     {"gpt2", data::TokenKind::gpt2}};
  command
      ->add_option("--tokens", settings.tokens,
                   "bytes (vocabulary 256) or gpt2 (byte pairs of --vocab and --merges)")
      ->transform(CLI::CheckedTransformer(kinds));
  command->add_option("--vocab", settings.vocabulary, "GPT-2's vocab.json");
  command->add_option("--merges", settings.merges, "GPT-2's merges.txt");
  command->add_option("--shard-tokens", settings.shard_tokens, "Tokens of a shard")
      ->capture_default_str();
  command
      ->add_option("--validation-tokens", settings.validation_tokens,
                   "The first so many tokens go to PREFIX_val_000000.bin")
      ->capture_default_str();
  command->add_option("--document-separator", settings.document_separator,
                      "Text between documents, e.g. '<|endoftext|>'; else a file is a document");
  command->add_flag("--overwrite", overwrite, "Replace the shards of this prefix");
}

void add_inspect(CLI::App& app, data::InspectSettings& settings) {
  auto* command = app.add_subcommand("inspect", "Tells what token files hold; reads every token");
  command->add_option("paths", settings.paths, "Files, folders, globs; Megatron prefixes")
      ->required();
  command->add_option("--kind", settings.kind, "text, nanogpt, llmc or megatron; else found out")
      ->check(CLI::IsMember({"text", "nanogpt", "llmc", "megatron"}));
  command->add_option("--vocab", settings.vocabulary, "GPT-2's vocab.json, to show text");
  command->add_option("--merges", settings.merges, "GPT-2's merges.txt");
}

void print(const data::PrepareSettings& settings, const data::Prepared& prepared) {
  fmt::print("{} documents, {}, {} tokens ({:.2f} bytes per token)\n", prepared.documents,
             format_bytes(static_cast<std::uint64_t>(prepared.bytes)), prepared.tokens,
             static_cast<double>(prepared.bytes) / static_cast<double>(prepared.tokens));
  for (const auto& shard : prepared.shards) {
    fmt::print("  {}  {} tokens\n", shard.path, shard.tokens);
  }
  fmt::print(
      "In the deck:\n  model.vocabulary = {}\n  data.kind = \"llmc\"\n  data.train = "
      "[\"{}_train_*.bin\"]\n",
      prepared.vocabulary, settings.prefix);
  if (settings.validation_tokens > 0) {
    fmt::print("  data.validation = [\"{}_val_*.bin\"]\n", settings.prefix);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Makes token shards from text, and tells what token files hold.", "adaptra-data"};
  app.footer(footer);
  app.set_version_flag("--version", build_line());
  app.require_subcommand(1);
  data::PrepareSettings prepare;
  data::InspectSettings inspect;
  bool overwrite = false;
  add_prepare(app, prepare, overwrite);
  add_inspect(app, inspect);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::usage);
  }
  try {
    if (app.got_subcommand("prepare")) {
      if (overwrite) prepare.existing = data::ExistingShards::replace;
      print(prepare, data::prepare_shards(prepare));
    } else {
      fmt::print("{}", data::inspect_tokens(inspect));
    }
    return static_cast<int>(ExitCode::done);
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {} (a bug in Adaptra, please report)\n", error.what());
    return static_cast<int>(ExitCode::internal);
  }
}
