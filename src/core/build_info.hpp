#pragma once
// What this binary is: shown by --version and at start-up, written into every run's files.

#include <string>

namespace adaptra {

struct BuildInfo {
  std::string version;     ///< e.g. "0.1.0"
  std::string compiler;    ///< e.g. "GNU 12.2.0"
  std::string build_type;  ///< e.g. "Release"
  std::string options;     ///< e.g. "native", sanitizers; may be empty
};

BuildInfo build_info();

/// One line: "Adaptra 0.1.0 (GNU 12.2.0, Release, native)".
std::string build_line();

}  // namespace adaptra
