#pragma once
// Which code points are letters and numbers: the Unicode general categories L and N, as sorted
// ranges.

#include <span>

namespace adaptra::data {

struct CodeRange {
  char32_t first, last;
};

std::span<const CodeRange> letter_ranges();
std::span<const CodeRange> number_ranges();

}  // namespace adaptra::data
