#pragma once
// Small token files as other programs write them, byte by byte.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace adaptra::testing_support {

template <typename T>
void append(std::string& bytes, T value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes.append(raw, sizeof value);
}

template <typename T>
std::string packed(const std::vector<T>& values) {
  std::string bytes;
  for (const T value : values) append(bytes, value);
  return bytes;
}

inline std::string llmc_shard(const std::vector<std::uint16_t>& tokens) {
  std::string bytes;
  for (const std::int32_t word : {20240520, 1, static_cast<int>(tokens.size())}) {
    append(bytes, word);
  }
  bytes.resize(1024, '\0');
  return bytes + packed(tokens);
}

/// An index of sequences {length, byte offset}; every sequence is a document.
struct Sequence {
  std::int32_t length;
  std::int64_t offset;
};
inline std::string megatron_index(std::uint8_t type, const std::vector<Sequence>& sequences) {
  std::string bytes("MMIDIDX\0\0", 9);
  append(bytes, std::uint64_t{1});
  append(bytes, type);
  append(bytes, static_cast<std::uint64_t>(sequences.size()));
  append(bytes, static_cast<std::uint64_t>(sequences.size() + 1));
  for (const auto& sequence : sequences) append(bytes, sequence.length);
  for (const auto& sequence : sequences) append(bytes, sequence.offset);
  for (std::size_t i = 0; i <= sequences.size(); ++i) append(bytes, static_cast<std::int64_t>(i));
  return bytes;
}

}  // namespace adaptra::testing_support
