#pragma once
// One end of a link: a stage's way to a neighbouring stage. It sends in one direction (activations
// down, gradients up) and receives in the other, one message per microbatch and step, whatever the
// order in which the plan wants them.
//
// Use, once per step:
//   begin_step(step, expected)   receives are posted before anything is sent
//   s = send_slot(); fill s.memory; send(microbatch, s)
//   r = poll_receive(microbatch); ... use r ...; release(r)
//   end_step()                   everything sent has left, everything announced has come
//
// Slots are host memory of the channel's own bounded pool; message size is fixed. No call waits
// longer than the deadline the channel was made with; what is over it is Error{peer_lost} naming
// link, direction, microbatch and peer. Main thread only.

#include "core/error.hpp"
#include "core/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace adaptra::transport {

/// Way of a message: activations go forward, gradients backward.
enum class Direction { forward, backward };

/// A message's memory, on loan from the channel's pool.
struct Slot {
  std::span<std::byte> memory;
  int index = 0;
};

class Channel {
 public:
  virtual ~Channel() = default;

  /// "link 1 to stage 2 (rank 2)": for messages.
  virtual std::string describe() const = 0;

  /// What carries the messages, for the start-up table: "MPI", "shared memory", "tcp on eth0".
  virtual std::string path() const { return {}; }

  /// What happened on the wire since the last call (a path lost, a path back): lines for the log.
  virtual std::vector<std::string> take_reports() { return {}; }

  /// Prepares for a step in which `expected` messages come, of microbatches 0 .. expected-1.
  virtual Status begin_step(std::int64_t step, int expected) = 0;

  /// A slot to fill. Waits while all are on their way: back-pressure beyond the plan's need.
  virtual Result<Slot> send_slot() = 0;

  /// Hands a filled slot over; the channel owns it from here. Never waits.
  virtual Status send(MicrobatchId microbatch, Slot slot) = 0;

  /// Waits until the message of this microbatch has left: the direct rule.
  virtual Status wait_left(MicrobatchId microbatch) = 0;

  /// The message of this microbatch if it has come, nothing if it has not yet. Never waits.
  virtual Result<std::optional<Slot>> poll_receive(MicrobatchId microbatch) = 0;

  /// Gives a received slot back.
  virtual void release(Slot slot) = 0;

  /// Waits until all messages sent in this step have left.
  virtual Status end_step() = 0;
};

}  // namespace adaptra::transport
