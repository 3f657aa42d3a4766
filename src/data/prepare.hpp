#pragma once
// Makes llm.c token shards from text, and tells what token files hold: the work of adaptra-data.

#include <cstdint>
#include <string>
#include <vector>

namespace adaptra::data {

enum class ExistingShards { refuse, replace };
enum class TokenKind { bytes, gpt2 };

struct PrepareSettings {
  std::vector<std::string> paths;  ///< text: files, folders, globs
  std::string prefix;              ///< of the shards
  TokenKind tokens = TokenKind::bytes;
  std::string vocabulary, merges;  ///< files, for gpt2
  std::int64_t shard_tokens = 100'000'000;
  std::int64_t validation_tokens = 0;  ///< the first so many tokens go to a shard of their own
  std::string document_separator;      ///< "": every file is one document
  ExistingShards existing = ExistingShards::refuse;
};

struct Shard {
  std::string path;
  std::int64_t tokens;
};

struct Prepared {
  std::int64_t documents = 0, bytes = 0, tokens = 0;
  std::int64_t vocabulary = 0;  ///< what model.vocabulary must be at least
  std::vector<Shard> shards;
};

/// Writes PREFIX_val_000000.bin (where asked for) and PREFIX_train_000001.bin and so on, each under
/// a temporary name first. With gpt2, <|endoftext|> stands before each document; with bytes the
/// tokens are those of data.kind = "text". Throws Error{usage} for settings, Error{file} for files.
Prepared prepare_shards(const PrepareSettings& settings);

struct InspectSettings {
  std::vector<std::string> paths;
  std::string kind;                ///< "": found out
  std::string vocabulary, merges;  ///< to show the first tokens as text
};

/// What the files hold, as text for a person. Reads every token. Throws Error{file}.
std::string inspect_tokens(const InspectSettings& settings);

}  // namespace adaptra::data
