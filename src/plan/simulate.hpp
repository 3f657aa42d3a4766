#pragma once
// What happens when a pipeline executes an order: exact, in integer nanoseconds. Every stage runs
// its ops one after the other, each as soon as its input is there:
//   F(i,k) needs F(i-1,k) and its message; B(i,k) needs B(i+1,k) and its message, and F(i,k);
//   W(i,k) needs B(i,k).
// A message of a link starts when its op has ended and the messages before it in that direction
// have left; it has left after the occupancy and arrives a delay later. On a `direct` link the
// sending stage is held for `hold` (default: delay + occupancy) from the end of its op.
//
// A microbatch holds activation_bytes from the start of F to the start of B, the maximum of both
// during B, activation_bytes_after_b from the end of B to the end of W.
//
// The ops of a stage are ordered, so the whole is one pass over all ops: O(S N), no event queue.

#include "core/error.hpp"
#include "plan/order.hpp"
#include "plan/profile.hpp"

#include <cstdint>
#include <vector>

namespace adaptra::plan {

struct OpTime {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  friend bool operator==(const OpTime&, const OpTime&) = default;
};

/// One direction of one link, per microbatch.
struct MessageTimes {
  std::vector<std::int64_t> left_ns;     ///< [N] the wire is free again
  std::vector<std::int64_t> arrived_ns;  ///< [N]
};

struct Schedule {
  std::vector<std::vector<OpTime>> ops;  ///< [S][3 N], as Order::stages
  std::int64_t makespan_ns = 0;          ///< from the first start to the last end
  std::vector<std::int64_t> busy_ns;     ///< [S] sum of op times
  std::vector<double> bubble;            ///< [S] 1 - busy / makespan
  std::vector<std::int64_t> peak_bytes;  ///< [S]
  std::vector<int> in_flight_peak;       ///< [S] forwards started minus W ended
  std::vector<MessageTimes> forward;     ///< [S-1]
  std::vector<MessageTimes> backward;    ///< [S-1]
};

/// Error (impossible_plan) if the order does not fit the profile or never ends; the message names
/// where each stage waits. Memory limits are reported by `check`, not here.
Result<Schedule> simulate(const Profile& profile, const Order& order);

/// Peak bytes of one stage's ops: a matter of their order alone.
std::int64_t peak_bytes(const Profile& profile, int stage, const std::vector<Op>& ops);

/// Most microbatches in flight (F started, W not ended) of one stage.
int in_flight_peak(const std::vector<Op>& ops);

}  // namespace adaptra::plan
