#pragma once
// The policy "adaptra" as a whole: constructions, search, robustness against the p95 delays, and
// spare delay as the tie-break.

#include "core/error.hpp"
#include "plan/order.hpp"
#include "plan/plan.hpp"
#include "plan/profile.hpp"

#include <cstdint>

namespace adaptra::plan {

/// The best order found within the budget of `options`; `profile` must be valid. impossible_plan if
/// one microbatch does not fit.
///   1. Constructions: greedy, slackness, ZeroBubble, 1F1B and options.starts, each if it fits.
///   2. Search for the shortest step at the mean delays.
///   3. If p95 delays are known: search for the shortest step at p95 among orders at most 1 %
///   slower
///      at the mean.
///   4. Else, among orders at most options.spare_tolerance slower than the best: the one whose
///   links
///      absorb the largest delay (the least of them counts).
Result<Order> best_order(const Profile& profile, const PlanOptions& options);

}  // namespace adaptra::plan
