#include "data/byte_pairs.hpp"

#include "core/error.hpp"
#include "data/mapped_file.hpp"
#include "data/split_text.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <queue>
#include <tuple>
#include <utility>

namespace adaptra::data {
namespace {

constexpr std::int64_t most_ids = 65536;
constexpr std::size_t most_known_pieces = 1 << 18, longest_known_piece = 64;

std::string utf8(unsigned code) {  // below 0x800
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0U | code >> 6), static_cast<char>(0x80U | (code & 0x3fU))};
}

// How the files spell a byte: printable ones as themselves, the others as the characters from 256
// on, in order.
std::array<std::string, 256> byte_spellings() {
  std::array<std::string, 256> spelling;
  unsigned next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 32 && byte < 127) || (byte > 160 && byte < 256 && byte != 173);
    spelling[byte] = utf8(printable ? byte : next++);
  }
  return spelling;
}

std::string text_of(const std::string& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// The bytes that a spelling stands for; what is no spelling of bytes stands for itself.
std::string unspelled(const std::string& token,
                      const std::unordered_map<std::string, char>& byte_of) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const auto lead = static_cast<unsigned char>(token[at]);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    const auto found = byte_of.find(token.substr(at, length));
    if (found == byte_of.end()) return token;
    bytes += found->second;
    at += length;
  }
  return bytes;
}

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

BytePairs BytePairs::read(const std::string& vocabulary_path, const std::string& merges_path) {
  return {text_of(vocabulary_path), vocabulary_path, text_of(merges_path), merges_path};
}

BytePairs::BytePairs(const std::string& vocabulary_json, const std::string& vocabulary_name,
                     const std::string& merges, const std::string& merges_name) {
  read_vocabulary(vocabulary_json, vocabulary_name);
  read_merges(merges, merges_name);
}

void BytePairs::read_vocabulary(const std::string& json, const std::string& name) {
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object()) {
    throw Error(ExitCode::file,
                fmt::format("{}: no JSON object of tokens and ids (GPT-2's vocab.json)", name));
  }
  const auto spelling = byte_spellings();
  std::unordered_map<std::string, char> byte_of;
  for (unsigned byte = 0; byte < 256; ++byte) byte_of[spelling[byte]] = static_cast<char>(byte);
  std::vector<bool> taken(static_cast<std::size_t>(most_ids));
  for (const auto& [token, value] : parsed.items()) {
    const bool fits = value.is_number_unsigned() &&
                      value.get<std::uint64_t>() < static_cast<std::uint64_t>(most_ids);
    const auto id = fits ? value.get<std::size_t>() : 0;
    if (!fits || taken[id] || token.empty()) {
      throw Error(ExitCode::file, fmt::format("{}: token \"{}\" has the id {}: ids must be "
                                              "different whole numbers from 0 to {}",
                                              name, token, value.dump(), most_ids - 1));
    }
    taken[id] = true;
    id_of_[token] = static_cast<std::int32_t>(id);
    if (bytes_of_.size() <= id) bytes_of_.resize(id + 1);
    bytes_of_[id] = unspelled(token, byte_of);
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto found = id_of_.find(spelling[byte]);
    if (found == id_of_.end()) {
      throw Error(ExitCode::file,
                  fmt::format("{}: no token for byte {} (\"{}\"): not a byte-level vocabulary",
                              name, byte, spelling[byte]));
    }
    id_of_byte_.push_back(found->second);
  }
  if (const auto end = id_of_.find("<|endoftext|>"); end != id_of_.end()) {
    end_of_text_ = end->second;
  }
}

void BytePairs::read_merges(const std::string& text, const std::string& name) {
  std::int32_t rank = 0;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || (number == 1 && line.rfind("#version", 0) == 0)) continue;
    const auto refuse = [&](const std::string& why) {
      throw Error(ExitCode::file, fmt::format("{}:{}: \"{}\": {}", name, number, line, why));
    };
    const auto blank = line.find(' ');
    if (blank == std::string::npos || line.find(' ', blank + 1) != std::string::npos) {
      refuse("not two tokens with a blank between");
    }
    const auto left = id_of_.find(line.substr(0, blank)),
               right = id_of_.find(line.substr(blank + 1));
    if (left == id_of_.end() || right == id_of_.end())
      refuse("a token of it is not in the vocabulary");
    const auto both = id_of_.find(left->first + right->first);
    if (both == id_of_.end()) refuse("what it makes is not in the vocabulary");
    if (!merges_.try_emplace(pair_key(left->second, right->second), Merge{rank++, both->second})
             .second) {
      refuse("stands here twice");
    }
  }
}

// Merges the pair of lowest rank, leftmost first, until none is left. The queue keeps long pieces
// (a file without blanks is one piece) from taking quadratic time.
std::vector<std::int32_t> BytePairs::merge_piece(std::string_view piece) const {
  struct Part {
    std::int32_t id;
    int previous, next;
  };
  const int count = static_cast<int>(piece.size());
  std::vector<Part> parts;
  parts.reserve(piece.size());
  for (int i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned char>(piece[static_cast<std::size_t>(i)]);
    parts.push_back({id_of_byte_[byte], i - 1, i + 1});
  }
  const auto part = [&](int i) -> Part& { return parts[static_cast<std::size_t>(i)]; };
  using Candidate =
      std::tuple<std::int32_t, int, std::uint64_t, std::int32_t>;  // rank, where, pair, id
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto propose = [&](int left) {
    if (left < 0 || part(left).next >= count) return;
    const auto key = pair_key(part(left).id, part(part(left).next).id);
    if (const auto found = merges_.find(key); found != merges_.end()) {
      queue.emplace(found->second.rank, left, key, found->second.id);
    }
  };
  for (int i = 0; i + 1 < count; ++i) propose(i);
  while (!queue.empty()) {
    const auto [rank, left, key, id] = queue.top();
    queue.pop();
    // Outdated where either side has been merged since.
    if (part(left).id < 0 || part(left).next >= count) continue;
    const int right = part(left).next;
    if (pair_key(part(left).id, part(right).id) != key) continue;
    part(left).id = id;
    part(left).next = part(right).next;
    if (part(right).next < count) part(part(right).next).previous = left;
    part(right).id = -1;
    propose(part(left).previous);
    propose(left);
  }
  std::vector<std::int32_t> ids;
  for (int i = 0; i < count; i = part(i).next) ids.push_back(part(i).id);
  return ids;
}

void BytePairs::encode(std::string_view text, const Sink& sink) {
  while (!text.empty()) {
    // Positions inside a piece are 32-bit; a longer run is cut.
    const auto piece = text.substr(0, std::min<std::size_t>(first_piece(text), 1 << 30));
    text.remove_prefix(piece.size());
    if (piece.size() > longest_known_piece) {
      sink(merge_piece(piece));
      continue;
    }
    std::string key(piece);
    auto known = known_pieces_.find(key);
    if (known == known_pieces_.end()) {
      if (known_pieces_.size() >= most_known_pieces) known_pieces_.clear();
      known = known_pieces_.emplace(std::move(key), merge_piece(piece)).first;
    }
    sink(known->second);
  }
}

std::vector<std::int32_t> BytePairs::encode(std::string_view text) {
  std::vector<std::int32_t> ids;
  encode(text, [&](std::span<const std::int32_t> piece) {
    ids.insert(ids.end(), piece.begin(), piece.end());
  });
  return ids;
}

std::string BytePairs::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const auto id : ids) {
    if (id < 0 || id >= vocabulary()) {
      throw Error(ExitCode::file,
                  fmt::format("token {} is not in the vocabulary of {}", id, vocabulary()));
    }
    text += bytes_of_[static_cast<std::size_t>(id)];
  }
  return text;
}

}  // namespace adaptra::data
