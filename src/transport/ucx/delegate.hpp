#pragma once
// The thread that moves one link's messages, so that the stage's thread never waits for the
// network. It alone owns the link's UCX workers; the stage's thread hands over commands through one
// ring and takes notices from another. With Wait::event it sleeps until the network, a command or a
// deadline wakes it, so that many ranks may share a core.

#include "transport/ucx/protocol.hpp"
#include "transport/ucx/spsc_ring.hpp"

#include <deque>
#include <future>
#include <mutex>
#include <thread>

namespace adaptra::transport::ucx {

/// The stage's thread's word to the delegate.
struct Command {
  enum class Kind { begin_step, send, release };
  Kind kind = Kind::send;
  int slot = 0;
  int microbatch = 0;
  std::int64_t step = 0;
  std::uint32_t round = 0;
  std::int64_t handed_ns = 0;
  faults::LinkCondition condition;
};

class Delegate {
 public:
  /// Starts the thread; it opens the rails. `pool` must outlive the delegate.
  Delegate(const LinkSettings& settings, std::span<std::byte> pool);
  /// Takes leave of the peer, waiting at most 2 s for its answer, and ends the thread.
  ~Delegate();
  Delegate(const Delegate&) = delete;
  Delegate& operator=(const Delegate&) = delete;

  /// This end's rails, for the peer. Throws Error{environment} where one cannot be opened.
  std::vector<std::string> addresses();
  /// Joins the rails to the peer's. Throws Error{environment}. Once.
  void connect(const std::vector<std::string>& peer);

  /// False where the delegate is too far behind to take more.
  bool push(Command command);
  std::optional<Notice> pop() { return notices_.pop(); }
  /// Why the link is lost, once it is.
  std::optional<Error> failure() const;
  /// What happened to rails since the last call: lines for the log.
  std::vector<std::string> take_reports();
  const Counters& counters() const { return counters_; }

 private:
  void run();
  void serve(Protocol& protocol);
  bool obey(Protocol& protocol);
  bool leave(Protocol& protocol);
  void sleep(Protocol& protocol);
  void notify(const Notice& notice);
  bool flush_notices();
  void wake();

  LinkSettings settings_;
  std::span<std::byte> pool_;
  SpscRing<Command> commands_;
  SpscRing<Notice> notices_;
  std::deque<Notice> unsaid_;  // notices that the ring had no room for; the delegate's own
  Counters counters_;
  int wake_fd_ = -1;
  std::atomic<bool> sleeping_{false};
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // of failure_ and reports_
  std::optional<Error> failure_;
  std::vector<std::string> reports_;
  std::int64_t bye_until_ns_ = 0;

  std::promise<std::vector<std::string>> addresses_;
  std::promise<std::vector<std::string>> peer_;
  std::promise<void> connected_;
  bool joined_ = false;
  std::thread thread_;
};

}  // namespace adaptra::transport::ucx
