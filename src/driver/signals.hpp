#pragma once
// Signals that a job receives, as flags: the handlers only note them. TERM and INT ask for a stop,
// USR1 says that time is nearly up; a second INT ends the process at once. Threads of ours block
// all signals (SignalsBlocked), so that only the main thread's system calls are interrupted.

#include <csignal>

namespace adaptra::driver {

enum class StopRequest : int {
  none = 0,
  time_nearly_up = 1,  ///< USR1 or --max-time: checkpoint, exit 10
  by_request = 2,      ///< TERM, INT or a control file: checkpoint, exit 11
};

/// Installs the handlers. Call once, early in main, before threads are started.
void install_signal_handlers();

/// The strongest request seen so far in this process.
StopRequest stop_requested_by_signal();

/// Blocks every signal in the calling thread while alive; threads started meanwhile inherit that.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace adaptra::driver
