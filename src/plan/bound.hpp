#pragma once
// What no order can beat: lower bounds of the makespan within the limits, and what causes them.

#include "plan/profile.hpp"

#include <cstdint>
#include <vector>

namespace adaptra::plan {

/// One direction of one link whose occupancy, not the work of a stage, decides the best step.
struct BandwidthBound {
  int link = 0;
  enum class Direction { forward, backward } direction = Direction::forward;
};

struct LowerBound {
  std::int64_t makespan_ns = 0;           ///< the largest of all below
  std::vector<std::int64_t> stage_ns;     ///< [S] from the work of one stage and what it may hold
  std::vector<std::int64_t> forward_ns;   ///< [S-1] from the occupancy of one link, downwards
  std::vector<std::int64_t> backward_ns;  ///< [S-1] upwards
  std::vector<BandwidthBound> bandwidth_bound;  ///< links above every stage's bound
};

/// Bounds for the delegated rule (they hold for direct links too, where a stage only waits more).
/// `in_flight_limit` 0: none; limits in bytes are turned into counts. O(S N).
LowerBound lower_bound(const Profile& profile, int in_flight_limit = 0);

}  // namespace adaptra::plan
