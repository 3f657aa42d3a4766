#pragma once
// The file formats of tokens: each reader checks its files and says where the tokens lie. Headers
// and size equations follow llm.c (llmc/dataloader.h), Megatron-LM
// (megatron/core/datasets/indexed_dataset.py) and nanoGPT (data/*/prepare.py). Three unrelated
// formats share the suffix .bin, so every reader refuses the others by name. All throw Error{file}
// naming file and byte. Local.

#include "data/mapped_file.hpp"
#include "data/segment_tokens.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace adaptra::data {

namespace llmc {
constexpr std::int32_t magic = 20240520;  ///< of a shard of 16-bit tokens
constexpr std::int32_t version = 1;
constexpr std::int64_t header_bytes = 256 * 4;
/// What a first 32-bit word says about a file of the llm.c family, or nullptr.
const char* name_of(std::int32_t first_word);
}  // namespace llmc

/// Text files: what of `paths` (folders walked) is neither empty nor binary, i.e. has no zero byte
/// in its first 4096.
std::vector<MappedFile> text_files(const std::vector<std::string>& paths);

/// Files of a token format: those named, and in folders those that end in .bin (Megatron: given by
/// prefix, .bin or .idx; always the .idx is returned).
std::vector<std::string> binary_files(const std::vector<std::string>& paths);
std::vector<std::string> megatron_files(const std::vector<std::string>& paths);

/// The tokens of one file: `file` is its number in the segments returned.
Segment read_text(const MappedFile& file, std::size_t number);
Segment read_nanogpt(const MappedFile& file, std::size_t number);
Segment read_llmc(const MappedFile& file, std::size_t number);

/// The sequences of a Megatron index, in its order, neighbours joined: one segment for a file as
/// Megatron's own tools write it.
std::vector<Segment> read_megatron(const MappedFile& index, const MappedFile& tokens,
                                   std::size_t number);

/// The format that a file is most likely of: "llmc", "megatron", "nanogpt" (any other .bin) or
/// "text". Throws Error{file} for a file of the llm.c family that holds no training tokens.
std::string sniff_kind(const std::string& path);

}  // namespace adaptra::data
