#pragma once
// GPT-2's cut of a text into pieces, inside which byte pairs are merged (Radford et al. 2019,
// section 2.2; the published pattern):
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// The text is UTF-8. A byte that is no part of valid UTF-8 is kept: it counts as a character that
// is neither letter, number nor space.

#include <cstddef>
#include <string_view>

namespace adaptra::data {

/// Bytes of the first piece of a text; at least 1 unless the text is empty.
std::size_t first_piece(std::string_view text);

}  // namespace adaptra::data
