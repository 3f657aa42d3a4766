#pragma once
// A channel over UCX: messages are moved by a delegate thread (delegate.hpp), exactly once, over
// shared memory within a host or over one or more rails between hosts (protocol.hpp). Whether the
// stage waits for a message to leave (direct) or goes on (delegated) is the executor's rule.

#include "faults/schedule.hpp"
#include "mpi/communicator.hpp"
#include "transport/channel.hpp"
#include "transport/ucx/delegate.hpp"

#include <map>
#include <memory>
#include <utility>

namespace adaptra::transport {

/// One message as this end saw it; times on this host's monotonic clock, ns, 0 where the other end
/// knows.
struct MessageRecord {
  std::int64_t step = 0;
  int microbatch = 0;
  Direction direction = Direction::forward;
  int rail = 0;
  int attempt = 1;
  std::int64_t handed_ns = 0;
  std::int64_t posted_ns = 0;
  std::int64_t left_ns = 0;
  std::int64_t arrived_ns = 0;
  std::int64_t consumed_ns = 0;
};

class UcxChannel final : public Channel {
 public:
  /// Opens this end. `faults` (may be null) must outlive the channel.
  UcxChannel(const ucx::LinkSettings& settings, const faults::Schedule* faults);
  ~UcxChannel() override;

  /// For the peer; and the peer's. Throw Error{environment}.
  std::vector<std::string> addresses() { return delegate_->addresses(); }
  void connect(const std::vector<std::string>& peer) { delegate_->connect(peer); }

  std::string describe() const override { return settings_.describe(); }
  std::string path() const override;
  std::vector<std::string> take_reports() override { return delegate_->take_reports(); }
  Status begin_step(std::int64_t step, int expected) override;
  Result<Slot> send_slot() override;
  Status send(MicrobatchId microbatch, Slot slot) override;
  Status wait_left(MicrobatchId microbatch) override;
  Result<std::optional<Slot>> poll_receive(MicrobatchId microbatch) override;
  void release(Slot slot) override;
  Status end_step() override;

  const ucx::Counters& counters() const { return delegate_->counters(); }
  /// How often send_slot() had to wait: back-pressure beyond the plan's need.
  std::uint64_t blocked_sends() const { return blocked_sends_; }
  /// Messages completed since the last call.
  std::vector<MessageRecord> take_records() { return std::exchange(records_, {}); }

 private:
  struct SendSlot {
    enum class State { free, filling, on_the_way };
    State state = State::free;
    bool left = true;
    MessageRecord record;
  };

  void take_notices();
  Status push(const ucx::Command& command);
  template <typename Done>
  Status wait_until(Done done, const char* what, int microbatch);
  Error late(const char* what, Direction direction, int microbatch) const;
  Slot slot(int pool_index, int index) const;

  ucx::LinkSettings settings_;
  const faults::Schedule* faults_;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t stride_ = 0;
  std::unique_ptr<ucx::Delegate> delegate_;
  std::vector<SendSlot> out_;
  std::map<std::pair<std::uint32_t, int>, MessageRecord> arrived_;  // (round, microbatch)
  std::map<std::pair<std::uint32_t, int>, int> arrived_slot_;
  std::vector<MessageRecord> records_;
  std::int64_t step_ = 0;
  std::uint32_t round_ = 0;
  std::uint64_t blocked_sends_ = 0;
};

struct UcxChannelSettings {
  LinkId link;
  Direction sends = Direction::forward;
  int peer = 0;  ///< rank in the communicator
  std::size_t message_bytes = 0;
  int send_slots = 2;
  int receive_slots = 2;
  double deadline_s = 60;
  double rail_deadline_s = 2;
  std::vector<std::string> rails;  ///< devices; empty: all usable ones
  ucx::SameHost same_host = ucx::SameHost::shared_memory;
  ucx::Wait wait = ucx::Wait::event;
  ucx::Checksum checksum = ucx::Checksum::off;
  const faults::Schedule* faults = nullptr;  ///< must outlive the channel
};

/// Opens both ends of a link; the two ranks call it at the same time (each rank its lower link
/// first), MPI carries the addresses. Throws Error{environment} or {peer_lost}.
std::unique_ptr<UcxChannel> make_ucx_channel(const mpi::Communicator& comm,
                                             const UcxChannelSettings& settings);

}  // namespace adaptra::transport
