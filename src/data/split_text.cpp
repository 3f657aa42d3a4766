#include "data/split_text.hpp"

#include "data/unicode_ranges.hpp"

#include <algorithm>
#include <span>

namespace adaptra::data {
namespace {

enum class Kind { letter, number, space, other };

struct Character {
  std::size_t bytes;
  Kind kind;
};

bool in(std::span<const CodeRange> ranges, char32_t code) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), code,
                                      [](char32_t c, const CodeRange& r) { return c < r.first; });
  return after != ranges.begin() && code <= std::prev(after)->last;
}

bool is_space(char32_t c) {  // Unicode's White_Space
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

Kind kind_of(char32_t code) {
  if (code < 0x80) {
    const char32_t lower = code | 0x20;
    if (lower >= 'a' && lower <= 'z') return Kind::letter;
    if (code >= '0' && code <= '9') return Kind::number;
    return is_space(code) ? Kind::space : Kind::other;
  }
  if (is_space(code)) return Kind::space;
  if (in(letter_ranges(), code)) return Kind::letter;
  return in(number_ranges(), code) ? Kind::number : Kind::other;
}

// The character at the start of a text that is not empty.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, kind_of(lead)};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  static constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};  // shorter forms are invalid
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return {1, Kind::other};
  char32_t code = lead & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return {1, Kind::other};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
    return {1, Kind::other};
  }
  return {length, kind_of(code)};
}

std::size_t contraction(std::string_view text) {
  for (const std::string_view end : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.substr(0, end.size()) == end) return end.size();
  }
  return 0;
}

}  // namespace

std::size_t first_piece(std::string_view text) {
  if (text.empty()) return 0;
  if (const auto bytes = contraction(text)) return bytes;
  // A blank goes with the word after it.
  std::size_t at = 0;
  if (text[0] == ' ' && text.size() > 1 && first_character(text.substr(1)).kind != Kind::space) {
    at = 1;
  }
  const Kind kind = first_character(text.substr(at)).kind;
  std::size_t last = at;  // where the last character of the run starts
  while (at < text.size()) {
    const Character next = first_character(text.substr(at));
    if (next.kind != kind) break;
    last = at;
    at += next.bytes;
  }
  // Of spaces before a word the last one is left for it, unless it is alone.
  if (kind == Kind::space && at < text.size() && last > 0) return last;
  return at;
}

}  // namespace adaptra::data
