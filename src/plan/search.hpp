#pragma once
// The planner's own policy: simulated annealing over leads and W placement (decode.hpp), started
// from several constructions. Anytime and, for a budget in evaluations, deterministic given the
// seed on every machine. One thread; any thread; stoppable.

#include "core/error.hpp"
#include "plan/order.hpp"
#include "plan/profile.hpp"

#include <cstdint>
#include <stop_token>
#include <vector>

namespace adaptra::plan {

struct SearchOptions {
  int in_flight_limit = 0;         ///< 0: none
  double budget_ms = 2000.0;       ///< wall time
  std::uint64_t budget_evals = 0;  ///< if > 0, evaluations instead of time
  std::uint64_t seed = 1;
  std::int64_t good_enough_ns = 0;  ///< stop when a makespan is at most this (a lower bound)
  /// If set, only orders whose makespan under this profile is at most `guard_ns` count (the first
  /// start must keep to it): "best at p95, but not slower than this at the mean".
  const Profile* guard = nullptr;
  std::int64_t guard_ns = 0;
  std::stop_token stop;
};

struct SearchResult {
  Order order;
  std::int64_t makespan_ns = 0;  ///< under the profile searched
  std::uint64_t evaluations = 0;
};

/// Improves on the best of `starts` (at least one; each must fit the profile and the limits).
SearchResult search(const Profile& profile, const std::vector<Order>& starts,
                    const SearchOptions& options);

}  // namespace adaptra::plan
