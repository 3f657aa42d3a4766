#pragma once
// A plan: what each stage executes, what it costs, and how good it is. The JSON form is a contract
// with other programs ("adaptra-plan", version 1); `order` alone is enough to read one back.

#include "core/error.hpp"
#include "plan/bound.hpp"
#include "plan/generate.hpp"
#include "plan/order.hpp"
#include "plan/profile.hpp"

#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace adaptra::plan {

struct Plan {
  int stages = 0;
  int microbatches = 0;
  std::string policy;  ///< "1f1b", "adaptra", ...; free text in a plan made elsewhere
  std::int64_t plan_version = 0;
  int replica = 0;
  Order order;
  std::vector<LinkMode> link_mode;       ///< [S-1] under which the prediction was made
  std::vector<int> warmup;               ///< [S] forwards before the first B
  std::vector<int> slackness;            ///< [S-1] warmup[i] - warmup[i+1]
  std::vector<int> in_flight_peak;       ///< [S] forwards started minus W ended
  std::vector<std::int64_t> peak_bytes;  ///< [S]
  std::vector<double> bubble;            ///< [S] 1 - busy / makespan
  std::int64_t makespan_ns = 0;
  std::int64_t makespan_p95_ns = 0;    ///< with every message at its p95; the makespan if unknown
  std::int64_t lower_bound_ns = 0;     ///< no order within the limits is faster
  double gap = 0.0;                    ///< makespan / lower bound - 1
  std::int64_t best_reachable_ns = 0;  ///< what these links allow at best: the lower bound
  std::vector<BandwidthBound> bandwidth_bound;  ///< links whose occupancy decides that
  std::vector<std::int64_t> absorbs_ns;  ///< [S-1] extra delay each link absorbs (slack.hpp); empty
                                         ///< if that would take longer than planning should
  std::string proven = "none";  ///< "optimal": no order is faster; "bound": the gap is proven;
  std::int64_t planning_ns = 0;
  std::vector<std::string> adjustments;  ///< what a policy had to give up to be possible
};

struct PlanOptions {
  int in_flight_limit = 0;    ///< most microbatches in flight per stage; 0: no limit
  double budget_ms = 2000.0;  ///< time for searching; a good plan is there long before
  std::uint64_t budget_evals =
      0;  ///< if > 0: this many evaluations instead of a time, reproducible
  std::uint64_t seed = 1;
  /// How much slower than the best a plan may be if its links absorb more delay in return. 0: only
  /// ties; `start_up_tolerance` for the first plan of a run, before anything is known of delays.
  double spare_tolerance = 0.0;
  std::vector<Order> starts;  ///< further orders to start from, e.g. of the present plan
  std::int64_t plan_version = 0;
  std::stop_token stop;  ///< asks a search in another thread to end with what it has
};

inline constexpr double start_up_tolerance = 0.005;

/// Makes, checks and predicts a plan. Local; any thread; the profile is validated first. Errors:
/// usage (malformed profile), impossible_plan (limits below one microbatch, or a fixed pattern that
/// does not fit).
Result<Plan> make_plan(Profile profile, Policy policy, const PlanOptions& options = {});

/// Predicts a given order under a profile and fills every figure of the plan. The order must pass
/// `check` (impossible_plan otherwise).
Result<Plan> plan_of_order(Profile profile, Order order, std::string policy,
                           const PlanOptions& options = {});

std::string to_json(const Plan& plan);
/// Reads a plan; only `order` is needed, other fields may be missing, unknown ones are skipped.
Result<Plan> parse_plan(std::string_view json);
Result<Plan> read_plan(const std::string& path);

}  // namespace adaptra::plan
