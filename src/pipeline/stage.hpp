#pragma once
// A pipeline stage as the step executor sees it: something that takes ops in plan order and
// finishes them some time later. On the host an op is finished when enqueue() returns; on a GPU,
// when its event has come. Main thread only.

#include "core/error.hpp"
#include "plan/order.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace adaptra::pipeline {

/// Names an enqueued op until the stage says that it ended.
struct OpToken {
  std::uint64_t value = 0;
};

/// When an op ran, on this rank's monotonic clock (CLOCK_MONOTONIC, ns).
struct OpTimes {
  std::int64_t started_ns = 0;
  std::int64_t ended_ns = 0;
};

class Stage {
 public:
  virtual ~Stage() = default;

  /// Bytes of one activation and of its gradient, as they cross a link.
  virtual std::size_t message_bytes() const = 0;

  /// Enqueues one op of the current step behind those enqueued before.
  ///   F: input = activation of the previous stage, output = activation for the next;
  ///   B: input = gradient from the next stage, output = gradient for the previous;
  ///   W: neither.
  /// Empty spans where there is no such neighbour. The memory is in use until ended() says so.
  virtual Result<OpToken> enqueue(const plan::Op& op, std::span<const std::byte> input,
                                  std::span<std::byte> output) = 0;

  /// True once the op's output may be sent and its input reused; never waits.
  virtual Result<bool> ended(OpToken token) = 0;

  /// When an ended op ran. Asked once per op, after ended().
  virtual OpTimes times(OpToken token) = 0;
};

}  // namespace adaptra::pipeline
