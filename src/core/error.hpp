#pragma once
// How things fail. Set-up code throws Error; code inside a step returns Status or Result<T>, so
// that no exception crosses a pending request, a delegate thread or a kernel. ADAPTRA_CHECK is for
// our own mistakes, never for the user's input.

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace adaptra {

/// Exit codes of every program (docs/quickstart.md). A launcher may replace them by 128 +
/// signal.
enum class ExitCode : int {
  done = 0,
  usage = 2,            ///< command line or input deck
  environment = 3,      ///< launch, libraries, machine
  peer_lost = 4,        ///< another rank or a link is gone
  numerics = 5,         ///< loss or gradient norm is not finite
  file = 6,             ///< checkpoint or data file
  impossible_plan = 7,  ///< well-formed but impossible plan or profile
  stopped_early = 10,   ///< time nearly up: checkpoint written, requeue
  stopped_by_request = 11,
  internal = 70,  ///< a bug of ours
};

/// What went wrong, for a person: what, where, why it matters, what to do.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// Success, or an Error. Must be looked at.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  const Error& error() const { return *error_; }
  void throw_if_error() const {
    if (error_) throw Error(*error_);
  }

 private:
  std::optional<Error> error_;
};

/// A value, or an Error. Must be looked at.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  T* operator->() { return &value(); }
  const Error& error() const { return std::get<1>(state_); }
  Status status() const { return ok() ? Status() : Status(error()); }

 private:
  std::variant<T, Error> state_;
};

/// Ends a broken invariant: throws Error{internal} naming the place and the condition.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace adaptra

#if ADAPTRA_CHECKS
/// Internal consistency check; compiled in by the dev and sanitizer presets only.
#define ADAPTRA_CHECK(condition) \
  ((condition) ? void(0) : ::adaptra::check_failed(#condition, __FILE__, __LINE__))
#else
#define ADAPTRA_CHECK(condition) ((void)sizeof(!(condition)))
#endif
