#pragma once
// The truth on small problems: our own exhaustive search over every order of every stage. Larger
// ones can be given to CBC, an optional dependency, as a mixed integer program.

#include "core/error.hpp"
#include "plan/order.hpp"
#include "plan/profile.hpp"

#include <cstdint>
#include <string>

namespace adaptra::plan {

struct ExactResult {
  Order order;                   ///< the best found
  std::int64_t makespan_ns = 0;  ///< of `order`
  std::int64_t bound_ns = 0;     ///< no order is faster; equal to the makespan if optimal
  bool optimal = false;
  std::string solver;  ///< "exhaustive" or "cbc", with what it did
};

/// Combinations that `solve_exhaustively` tries if no limit takes any away.
double exhaustive_combinations(const Profile& profile);

/// Tries every combination of orders within the limits, however long it takes; meant for up to
/// about 1e7 combinations (three stages, three microbatches: 74 088).
Result<ExactResult> solve_exhaustively(const Profile& profile, int in_flight_limit);

/// Was CBC there when this was built?
bool has_cbc();

struct CbcOptions {
  int in_flight_limit = 0;
  double time_limit_s = 60.0;
};
/// Mixed integer program with one binary for each pair of ops whose order on a stage is free, no
/// start of ours. Reports CBC's incumbent and bound as they are after the time limit. Error
/// (environment) without CBC; (impossible_plan) if CBC found nothing in time.
Result<ExactResult> solve_with_cbc(const Profile& profile, const CbcOptions& options);

}  // namespace adaptra::plan
