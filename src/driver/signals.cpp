#include "driver/signals.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace adaptra::driver {
namespace {

// A signal handler can reach nothing but static storage.
std::atomic<int> g_request{0};
std::atomic<int> g_interrupts{0};

void raise_request(StopRequest request) {
  const int wanted = static_cast<int>(request);
  int seen = g_request.load();
  while (seen < wanted && !g_request.compare_exchange_weak(seen, wanted)) {
  }
}

void on_signal(int number) {
  if (number == SIGUSR1) {
    raise_request(StopRequest::time_nearly_up);
    return;
  }
  raise_request(StopRequest::by_request);
  if (number == SIGINT && g_interrupts.fetch_add(1) >= 1) _exit(128 + SIGINT);
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGUSR1, SIGTERM, SIGINT}) sigaction(number, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

StopRequest stop_requested_by_signal() {
  return static_cast<StopRequest>(g_request.load());
}

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace adaptra::driver
