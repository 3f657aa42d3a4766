#include "data/prepare.hpp"

#include "core/error.hpp"
#include "core/text.hpp"
#include "data/byte_pairs.hpp"
#include "data/formats.hpp"
#include "data/shard_writer.hpp"
#include "data/token_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>

namespace adaptra::data {
namespace {

constexpr std::int64_t largest_shard = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t gpt2_end_of_text = 50256;

void check(const PrepareSettings& settings) {
  const auto refuse = [](const std::string& why) { throw Error(ExitCode::usage, why); };
  const bool gpt2 = settings.tokens == TokenKind::gpt2;
  if (gpt2 && (settings.vocabulary.empty() || settings.merges.empty())) {
    refuse(
        "--tokens gpt2 needs --vocab vocab.json and --merges merges.txt (GPT-2's published files)");
  }
  if (!gpt2 && !(settings.vocabulary.empty() && settings.merges.empty())) {
    refuse("--vocab and --merges go with --tokens gpt2; --tokens bytes would not use them");
  }
  if (settings.shard_tokens < 1 || settings.shard_tokens > largest_shard) {
    refuse(fmt::format("--shard-tokens {}: must be 1 to {} (the format counts with 32 bits)",
                       settings.shard_tokens, largest_shard));
  }
  if (settings.validation_tokens < 0 || settings.validation_tokens > largest_shard) {
    refuse(fmt::format("--validation-tokens {}: must be 0 to {}", settings.validation_tokens,
                       largest_shard));
  }
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// The first document of a text; takes it and the separator away.
std::string_view take_document(std::string_view& text, const std::string& separator) {
  const auto end = separator.empty() ? text.npos : text.find(separator);
  const auto document = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + separator.size());
  return document;
}

void add_bytes(std::string_view document, ShardWriter& writer) {
  std::array<std::int32_t, 4096> ids;
  while (!document.empty()) {
    const auto n = std::min(document.size(), ids.size());
    std::transform(document.begin(), document.begin() + static_cast<long>(n), ids.begin(),
                   [](char c) { return static_cast<unsigned char>(c); });
    writer.add(std::span(ids).first(n));
    document.remove_prefix(n);
  }
}

}  // namespace

Prepared prepare_shards(const PrepareSettings& settings) {
  check(settings);
  std::optional<BytePairs> pairs;
  if (settings.tokens == TokenKind::gpt2) {
    pairs.emplace(BytePairs::read(settings.vocabulary, settings.merges));
    if (!pairs->end_of_text()) {
      throw Error(ExitCode::file, settings.vocabulary +
                                      ": has no <|endoftext|>, which stands before each document");
    }
  }
  const auto files = text_files(settings.paths);
  ShardWriter writer(settings.prefix, settings.shard_tokens, settings.validation_tokens,
                     settings.existing);
  Prepared result;
  result.vocabulary = pairs ? pairs->vocabulary() : 256;
  for (const auto& file : files) {
    std::string_view text = text_of(file);
    while (!text.empty()) {
      const auto document = take_document(text, settings.document_separator);
      if (document.empty()) continue;
      ++result.documents;
      result.bytes += static_cast<std::int64_t>(document.size());
      if (pairs) {
        writer.add(std::array{*pairs->end_of_text()});
        pairs->encode(document, [&](std::span<const std::int32_t> ids) { writer.add(ids); });
      } else {
        add_bytes(document, writer);
      }
    }
  }
  result.shards = writer.close();
  for (const auto& shard : result.shards) result.tokens += shard.tokens;
  if (result.tokens <= settings.validation_tokens) {
    throw Error(ExitCode::file,
                fmt::format("the text makes {} tokens: nothing is left to train on after "
                            "--validation-tokens {}",
                            result.tokens, settings.validation_tokens));
  }
  return result;
}

namespace {

std::string kind_of(const InspectSettings& settings) {
  if (!settings.kind.empty()) return settings.kind;
  std::string kind, first;
  for (const auto& path : settings.paths) {
    if (!std::filesystem::exists(path) && std::filesystem::exists(path + ".idx")) return "megatron";
    for (const auto& file : expand_paths({path})) {
      const auto found = sniff_kind(file);
      if (kind.empty()) {
        kind = found;
        first = file;
      }
      if (found != kind) {
        throw Error(ExitCode::file,
                    fmt::format("{} looks like \"{}\", {} like \"{}\": inspect them apart, or say "
                                "what they are with --kind",
                                first, kind, file, found));
      }
    }
  }
  return kind;
}

struct Totals {
  std::int32_t smallest = std::numeric_limits<std::int32_t>::max(), largest = 0;
  std::int64_t ends = 0;
};

Totals totals_of(const TokenSource& source) {
  Totals totals;
  std::vector<std::int32_t> ids(1 << 16);
  for (std::int64_t at = 0; at < source.size(); at += static_cast<std::int64_t>(ids.size())) {
    ids.resize(static_cast<std::size_t>(
        std::min<std::int64_t>(source.size() - at, static_cast<std::int64_t>(ids.size()))));
    source.copy(at, ids);
    const auto [low, high] = std::minmax_element(ids.begin(), ids.end());
    totals.smallest = std::min(totals.smallest, *low);
    totals.largest = std::max(totals.largest, *high);
    totals.ends += std::count(ids.begin(), ids.end(), gpt2_end_of_text);
  }
  return totals;
}

std::string on_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) < 32 || c == 127) {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      line += c;
    }
  }
  return line;
}

}  // namespace

std::string inspect_tokens(const InspectSettings& settings) {
  if (settings.vocabulary.empty() != settings.merges.empty()) {
    throw Error(ExitCode::usage, "--vocab and --merges belong together");
  }
  const auto kind = kind_of(settings);
  const auto source = open_tokens(kind, settings.paths, std::int64_t{1} << 31);
  const auto totals = totals_of(*source);
  std::vector<std::int32_t> first(
      static_cast<std::size_t>(std::min<std::int64_t>(source->size(), 32)));
  source->copy(0, first);

  auto report =
      fmt::format("kind    {}\ntokens  {} ({})\nids     {} to {}: model.vocabulary at least {}\n",
                  kind, source->size(), format_count(static_cast<double>(source->size())),
                  totals.smallest, totals.largest, totals.largest + std::int64_t{1});
  if (totals.largest >= gpt2_end_of_text) {
    report += fmt::format("marks   {} x {} (GPT-2's end of text)\n", totals.ends, gpt2_end_of_text);
  }
  report += fmt::format("first   {}\n", fmt::join(first, " "));
  if (!settings.vocabulary.empty()) {
    const auto text = BytePairs::read(settings.vocabulary, settings.merges).decode(first);
    report += fmt::format("text    {}\n", on_one_line(text));
  } else if (totals.largest < 256) {
    report += fmt::format("text    {}\n", on_one_line(std::string(first.begin(), first.end())));
  }
  return report;
}

}  // namespace adaptra::data
