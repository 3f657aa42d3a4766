#pragma once
// Runs a program as a user does, and what came of it.

#include "support/temporary_folder.hpp"

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace adaptra::testing_support {

struct CommandResult {
  int code = -1;  ///< exit status; 124: it had to be ended after the limit
  std::string out, err;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Runs a shell command with at most `limit_s` seconds to live.
inline CommandResult run_command(const std::string& command, int limit_s = 100) {
  const TemporaryFolder folder;
  const auto out = folder.path() / "out", err = folder.path() / "err",
             script = folder.path() / "script.sh";
  std::ofstream(script) << command << "\n";
  const std::string line = "timeout -k 5 " + std::to_string(limit_s) + " bash '" + script.string() +
                           "' >'" + out.string() + "' 2>'" + err.string() + "' </dev/null";
  const int status = std::system(line.c_str());
  CommandResult result;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = read_text(out);
  result.err = read_text(err);
  return result;
}

/// "mpirun ... -n ranks", for more ranks than cores and for root in containers.
inline std::string mpirun(int ranks) {
  return "mpirun --oversubscribe --bind-to none --allow-run-as-root -n " + std::to_string(ranks);
}

}  // namespace adaptra::testing_support
