#pragma once
// GPT-2's byte-level tokens from a user's vocab.json and merges.txt: text to ids and back. Ids
// equal those of tiktoken's and Hugging Face's "gpt2" for the published files. Not thread-safe (it
// remembers pieces).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace adaptra::data {

class BytePairs {
 public:
  /// Reads the two files. Throws Error{file} naming file and line or token.
  static BytePairs read(const std::string& vocabulary_path, const std::string& merges_path);

  /// The same from their texts; the names stand for the files in messages.
  BytePairs(const std::string& vocabulary_json, const std::string& vocabulary_name,
            const std::string& merges, const std::string& merges_name);

  /// Largest id + 1; at most 65536, so that ids fit into 16 bits.
  std::int64_t vocabulary() const { return static_cast<std::int64_t>(bytes_of_.size()); }
  /// The id of <|endoftext|>, where the vocabulary has it.
  std::optional<std::int32_t> end_of_text() const { return end_of_text_; }

  using Sink = std::function<void(std::span<const std::int32_t>)>;
  /// Gives the ids of a text to `sink`, piece by piece. Special tokens in the text are text.
  void encode(std::string_view text, const Sink& sink);
  std::vector<std::int32_t> encode(std::string_view text);

  /// The bytes of ids; throws Error{file} for an id that is not in the vocabulary.
  std::string decode(std::span<const std::int32_t> ids) const;

 private:
  struct Merge {
    std::int32_t rank, id;
  };
  void read_vocabulary(const std::string& json, const std::string& name);
  void read_merges(const std::string& text, const std::string& name);
  std::vector<std::int32_t> merge_piece(std::string_view piece) const;

  std::unordered_map<std::string, std::int32_t> id_of_;  // by the token's spelling in the files
  std::vector<std::string> bytes_of_;                    // by id
  std::vector<std::int32_t> id_of_byte_;                 // [256]
  std::unordered_map<std::uint64_t, Merge> merges_;      // by left id << 32 | right id
  std::optional<std::int32_t> end_of_text_;
  std::unordered_map<std::string, std::vector<std::int32_t>> known_pieces_;
};

}  // namespace adaptra::data
