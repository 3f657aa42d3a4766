#include "plan/exact.hpp"

#include "plan/generate.hpp"
#include "plan/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace adaptra::plan {
namespace {

// Every order of one stage that keeps its limits.
std::vector<std::vector<Op>> orders_of_stage(const Profile& p, int stage, int in_flight_limit) {
  const auto i = static_cast<std::size_t>(stage);
  const int n = p.microbatches;
  std::vector<std::vector<Op>> all;
  std::vector<Op> row;
  const std::function<void(int, int, int)> extend = [&](int f, int b, int w) {
    if (in_flight_limit > 0 && f - w > in_flight_limit) return;
    if (peak_bytes(p, stage, row) > p.memory_limit_bytes[i]) return;
    if (w == n) {
      all.push_back(row);
      return;
    }
    const auto with = [&](OpKind kind, int k, int nf, int nb, int nw) {
      row.push_back({kind, k});
      extend(nf, nb, nw);
      row.pop_back();
    };
    if (f < n) with(OpKind::forward, f, f + 1, b, w);
    if (b < f) with(OpKind::backward_input, b, f, b + 1, w);
    if (w < b) with(OpKind::backward_weight, w, f, b, w + 1);
  };
  extend(0, 0, 0);
  return all;
}

}  // namespace

double exhaustive_combinations(const Profile& p) {
  // Orders of one stage without limits: 3-row standard tableaux, (3n)! 2 / (n! (n+1)! (n+2)!).
  double rows = 1.0;
  for (int k = 1; k <= p.microbatches && rows < 1e30; ++k) {
    rows = rows * 3.0 * (3.0 * k - 1.0) * (3.0 * k - 2.0) / ((k + 2.0) * (k + 1.0));
  }
  double all = 1.0;
  for (int i = 0; i < p.stages && all < 1e30; ++i) all *= rows;
  return all;
}

Result<ExactResult> solve_exhaustively(const Profile& p, int in_flight_limit) {
  const Status fits = require_one_microbatch(p);
  if (!fits) return fits.error();
  std::vector<std::vector<std::vector<Op>>> choices;
  for (int i = 0; i < p.stages; ++i) {
    choices.push_back(orders_of_stage(p, i, in_flight_limit));
    if (choices.back().empty()) {
      return Error(ExitCode::impossible_plan, fmt::format("stage {}: no order fits", i));
    }
  }
  ExactResult best;
  best.makespan_ns = std::numeric_limits<std::int64_t>::max();
  std::uint64_t tried = 0;
  Order order;
  order.stages.resize(choices.size());
  const std::function<void(std::size_t)> choose = [&](std::size_t stage) {
    if (stage == choices.size()) {
      ++tried;
      const Result<Schedule> schedule = simulate(p, order);
      if (schedule && schedule.value().makespan_ns < best.makespan_ns) {
        best.makespan_ns = schedule.value().makespan_ns;
        best.order = order;
      }
      return;
    }
    for (const auto& row : choices[stage]) {
      order.stages[stage] = row;
      choose(stage + 1);
    }
  };
  choose(0);
  best.bound_ns = best.makespan_ns;
  best.optimal = true;
  best.solver = fmt::format("exhaustive ({} combinations)", tried);
  return best;
}

}  // namespace adaptra::plan
