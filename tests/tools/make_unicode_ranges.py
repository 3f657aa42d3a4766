#!/usr/bin/env python3
"""Writes src/data/unicode_ranges.cpp: which code points are letters and numbers (general categories L and N).

Needs the Python package `regex`, whose tables follow the newest Unicode. Run: make_unicode_ranges.py > FILE
"""
import regex


def ranges(pattern):
    matches, found = regex.compile(pattern).match, []
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000 or not matches(chr(code)):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def table(name, pattern):
    print(f"constexpr CodeRange {name}_table[] = {{")
    line = "   "
    for first, last in ranges(pattern):
        item = f" {{0x{first:x}, 0x{last:x}}},"
        if len(line + item) > 100:
            print(line)
            line = "   "
        line += item
    print(line)
    print("};\n")


print("""// Made by tests/tools/make_unicode_ranges.py; do not edit.
// clang-format off
#include "data/unicode_ranges.hpp"

namespace adaptra::data {
namespace {
""")
table("letter", r"\p{L}")
table("number", r"\p{N}")
print("""}  // namespace

std::span<const CodeRange> letter_ranges() { return letter_table; }
std::span<const CodeRange> number_ranges() { return number_table; }

}  // namespace adaptra::data""")
