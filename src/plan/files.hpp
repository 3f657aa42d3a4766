#pragma once
// Whole files in and out, with the error a person needs.

#include "core/error.hpp"

#include <string>
#include <string_view>

namespace adaptra::plan {

/// Whole file; error of ExitCode::file if it cannot be read.
Result<std::string> read_file(const std::string& path);
Status write_file(const std::string& path, std::string_view text);

}  // namespace adaptra::plan
