#pragma once
// Orders made by policy: the pipeline is simulated, and each time a stage is free the policy picks
// one of the ops that are ready. Delays of the profile are part of that simulation ("an adapted
// plan is generated under the delay"). Deterministic, local.
//
// Sources: GPipe (Huang et al. 2019); 1F1B (Narayanan et al. 2019); ZB-H1, ZB-H2 and the automatic
// scheduler (Qi et al. 2024, sections 2 and 3); B > F > W by simulation and warm-up counts from
// slackness (Adaptra, arXiv 2504.19232, algorithms 2 to 4).

#include "core/error.hpp"
#include "plan/order.hpp"
#include "plan/profile.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace adaptra::plan {

enum class Policy { gpipe, one_f_one_b, zb_h1, zb_h2, greedy, slackness, adaptra, exact };

/// "gpipe", "1f1b", "zb-h1", ... as on the command line and in plans.
std::string_view to_string(Policy policy);
/// Error (usage) with the nearest name.
Result<Policy> parse_policy(std::string_view name);

/// How a generated order is steered.
struct GenerateRule {
  std::vector<int> in_flight_limit;  ///< [S] forwards started minus W ended; empty: no limit
  std::vector<int> warmup;           ///< [S] exactly this many F before the first B; empty: free
  /// What a free stage prefers among the ops that are ready.
  enum class Prefer {
    backward,   ///< B > F > W
    alternate,  ///< after the first B: F and B in turn, W only where neither is ready
  } prefer = Prefer::backward;
  /// A W starts only if it ends before the next input is known to arrive, unless nothing else is
  /// coming; 0: W starts at once, 1: only if it fits whole. In between: this share of it.
  double w_fit = 0.0;
};

/// An order by simulation under `profile`, within its bytes and the rule's limits. Fails only if a
/// single microbatch does not fit (impossible_plan).
Result<Order> generate_by_simulation(const Profile& profile, const GenerateRule& rule);

/// A made order, and what had to give so that it is possible.
struct Generated {
  Order order;
  std::vector<std::string> adjustments;  ///< e.g. "stage 0: warm-up 14 instead of 19 (memory)"
};

/// The order of one baseline policy (not adaptra, not exact). `in_flight_limit` 0: none.
/// impossible_plan if the policy cannot keep within the limits.
Result<Generated> generate(const Profile& profile, Policy policy, int in_flight_limit = 0);

/// Error that says what is needed if one microbatch does not fit into a stage.
Status require_one_microbatch(const Profile& profile);

/// Warm-up counts of the slackness rule (Eq. 1): D_i = ceil((tF_i + tB_i + 2 c_i) / (tF_{i+1} +
/// tB_{i+1})), x_{S-1} = 1; not clamped.
std::vector<std::int64_t> slackness_warmup(const Profile& profile);

}  // namespace adaptra::plan
