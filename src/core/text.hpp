#pragma once
// Small helpers for messages: the nearest known name, and quantities as people write them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace adaptra {

/// The known name closest to `name` by edit distance, or "" where none is near enough to be a typo.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

/// "1.50 GiB", "12.0 KiB", "17 B".
std::string format_bytes(std::uint64_t bytes);

/// "124.44 M", "1.56 B", "17": counts of parameters or tokens.
std::string format_count(double count);

/// "1:02:03" or "02:03".
std::string format_duration_s(double seconds);

}  // namespace adaptra
