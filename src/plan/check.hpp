#pragma once
// The independent judge of an order: it shares no code with simulate or generate, and no plan runs
// that it refuses. Works on the dependency graph, not on times.

#include "core/error.hpp"
#include "plan/order.hpp"
#include "plan/profile.hpp"

#include <string>
#include <vector>

namespace adaptra::plan {

/// How sends of `direct` links end. Our transport posts all receives of a step ahead, so a send
/// never needs its receiver to be there. Under `rendezvous` (receives posted in order of execution,
/// no buffering) the stage after a send waits until the receiver has reached the matching op; a
/// valid order can then be cyclic, and the check says where.
enum class SendRule { receives_ahead, rendezvous };

struct CheckOptions {
  int in_flight_limit = 0;  ///< most microbatches in flight per stage; 0: no limit
  SendRule send_rule = SendRule::receives_ahead;
};

/// One violated rule.
struct Violation {
  int stage = 0;
  int position = 0;  ///< index into Order::stages[stage]; -1: the stage as a whole
  std::string rule;  ///< what is wrong, for a person
};

struct CheckReport {
  std::vector<Violation> violations;  ///< empty: the order may run
  bool ok() const { return violations.empty(); }
};

/// Every op exactly once, microbatches of each kind in order (gradients are summed in one order),
/// F before B before W, no cycle (so sends and receives match), bytes and count in flight within
/// the limits at every op.
CheckReport check(const Profile& profile, const Order& order, const CheckOptions& options = {});

/// As check, as a Status of ExitCode::impossible_plan whose message holds the marked grid.
Status require_valid(const Profile& profile, const Order& order, const CheckOptions& options = {});

/// The order as a grid, stages as rows, each violated cell in brackets like [B3], then the rules.
std::string marked_grid(const Order& order, const CheckReport& report);

}  // namespace adaptra::plan
