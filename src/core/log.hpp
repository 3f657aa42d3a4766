#pragma once
// What a run says to a person: one line per event, from rank 0 for all ranks (info, warn), or from
// one rank with its coordinates in front (local_warn, local_error). `info` is proportional to steps
// and plan changes, never to microbatches. Numbers that a program wants go to log.jsonl and run.h5
// instead. A Log is passed to whoever speaks; there is no global one. Thread-safe.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>

namespace spdlog {
class logger;
}

namespace adaptra {

class Log {
 public:
  /// A log for one process. `where` names it in lines of its own, e.g. "rank 3 (node07, stage 3)";
  /// only the process with `leads` prints the lines that speak for all ranks.
  enum class Role { leads, follows };
  explicit Log(Role role = Role::leads, std::string where = {});

  template <typename... Args>
  void info(fmt::format_string<Args...> text, Args&&... args) const {
    if (role_ == Role::leads) write_info(fmt::format(text, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void warn(fmt::format_string<Args...> text, Args&&... args) const {
    if (role_ == Role::leads) write_warning(fmt::format(text, std::forward<Args>(args)...));
  }
  /// A line of this rank alone, prefixed by where it is.
  template <typename... Args>
  void local_warn(fmt::format_string<Args...> text, Args&&... args) const {
    write_warning(prefix() + fmt::format(text, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void local_error(fmt::format_string<Args...> text, Args&&... args) const {
    write_error(prefix() + fmt::format(text, std::forward<Args>(args)...));
  }

  const std::string& where() const { return where_; }

 private:
  std::string prefix() const { return where_.empty() ? "" : where_ + ": "; }
  void write_info(const std::string& line) const;     // standard output
  void write_warning(const std::string& line) const;  // standard error
  void write_error(const std::string& line) const;    // standard error

  Role role_;
  std::string where_;
  std::shared_ptr<spdlog::logger> out_;
  std::shared_ptr<spdlog::logger> err_;
};

}  // namespace adaptra
