#include "transport/ucx/delegate.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

namespace adaptra::transport::ucx {
namespace {

constexpr std::int64_t bye_limit_ns = 2'000'000'000;

std::size_t ring_size(const LinkSettings& settings) {
  // All slots at once, both ways, with room for the borders of several steps.
  return static_cast<std::size_t>(4 * (settings.send_slots + settings.receive_slots) + 64);
}

}  // namespace

Delegate::Delegate(const LinkSettings& settings, std::span<std::byte> pool)
    : settings_(settings),
      pool_(pool),
      commands_(ring_size(settings)),
      notices_(ring_size(settings)),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (wake_fd_ < 0) throw Error(ExitCode::environment, "eventfd: no file descriptor left");
  // Signals are the main thread's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), fmt::format("link{}", settings_.link.value).c_str());
}

Delegate::~Delegate() {
  stop_.store(true);
  if (!joined_) peer_.set_value({});  // never connected: let the thread go
  wake();
  thread_.join();
  close(wake_fd_);
}

std::vector<std::string> Delegate::addresses() {
  return addresses_.get_future().get();
}

void Delegate::connect(const std::vector<std::string>& peer) {
  joined_ = true;
  peer_.set_value(peer);
  connected_.get_future().get();
}

bool Delegate::push(Command command) {
  if (!commands_.push(command)) return false;
  if (sleeping_.load()) wake();
  return true;
}

void Delegate::wake() {
  const std::uint64_t one = 1;
  // It fails only where the counter is full, and then the sleeper wakes anyway.
  if (write(wake_fd_, &one, sizeof(one)) < 0) return;
}

std::optional<Error> Delegate::failure() const {
  if (!failed_.load()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::vector<std::string> Delegate::take_reports() {
  const std::lock_guard lock(mutex_);
  return std::exchange(reports_, {});
}

void Delegate::run() {
  bool opened = false;
  bool connected = false;
  try {
    Protocol protocol(
        settings_, pool_, counters_, [this](const Notice& notice) { notify(notice); },
        [this](const std::string& line) {
          const std::lock_guard lock(mutex_);
          reports_.push_back(line);
        });
    addresses_.set_value(protocol.addresses());
    opened = true;
    const auto peer = peer_.get_future().get();
    if (stop_.load() && peer.empty()) return;
    protocol.connect(peer);
    connected = true;
    connected_.set_value();
    serve(protocol);
  } catch (...) {
    std::string what = "unknown exception";
    try {
      throw;
    } catch (const std::exception& error) {
      what = error.what();
    } catch (...) {
    }
    {
      const std::lock_guard lock(mutex_);
      failure_.emplace(ExitCode::internal,
                       fmt::format("{}: its delegate died: {}", settings_.describe(), what));
    }
    failed_.store(true);
    if (!opened) {
      addresses_.set_exception(std::current_exception());
    } else if (!connected) {
      connected_.set_exception(std::current_exception());
    }
  }
}

void Delegate::serve(Protocol& protocol) {
  while (true) {
    bool worked = obey(protocol);
    auto turned = protocol.turn();
    if (!turned.ok()) {
      flush_notices();
      {
        const std::lock_guard lock(mutex_);
        failure_ = turned.error();
      }
      failed_.store(true);
      return;
    }
    worked = worked || *turned;
    if (!flush_notices()) {  // the stage's thread has not looked for long
      sched_yield();
      continue;
    }
    if (stop_.load() && leave(protocol)) return;
    if (!worked) sleep(protocol);
  }
}

bool Delegate::obey(Protocol& protocol) {
  bool worked = false;
  while (auto command = commands_.pop()) {
    worked = true;
    switch (command->kind) {
      case Command::Kind::begin_step:
        protocol.begin_step(command->condition);
        break;
      case Command::Kind::send:
        protocol.send(command->step, command->round, command->microbatch, command->slot,
                      command->handed_ns);
        break;
      case Command::Kind::release:
        protocol.release(command->slot);
        break;
    }
  }
  return worked;
}

bool Delegate::leave(Protocol& protocol) {
  const std::int64_t now = now_ns();
  if (bye_until_ns_ == 0) {
    bye_until_ns_ = now + bye_limit_ns;
    protocol.say_bye();
  }
  return protocol.may_leave() || now > bye_until_ns_;
}

void Delegate::sleep(Protocol& protocol) {
  if (settings_.wait == Wait::spin) {
    sched_yield();
    return;
  }
  sleeping_.store(true);
  if (commands_.empty() && protocol.arm()) {
    std::vector<pollfd> fds = {{wake_fd_, POLLIN, 0}};
    for (const int fd : protocol.event_fds()) fds.push_back({fd, POLLIN, 0});
    const std::int64_t longest = stop_.load() ? 10'000'000 : 1'000'000'000;
    const std::int64_t left =
        std::clamp<std::int64_t>(protocol.next_due_ns() - now_ns(), 0, longest);
    const timespec limit{left / 1'000'000'000, left % 1'000'000'000};
    ppoll(fds.data(), fds.size(), &limit, nullptr);
    std::uint64_t count = 0;
    if (fds[0].revents != 0 && read(wake_fd_, &count, sizeof(count)) < 0) count = 0;
  }
  sleeping_.store(false);
}

void Delegate::notify(const Notice& notice) {
  Notice copy = notice;
  if (unsaid_.empty() && notices_.push(copy)) return;
  unsaid_.push_back(notice);
}

bool Delegate::flush_notices() {
  while (!unsaid_.empty()) {
    if (!notices_.push(unsaid_.front())) return false;
    unsaid_.pop_front();
  }
  return true;
}

}  // namespace adaptra::transport::ucx
