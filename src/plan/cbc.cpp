// The exact problem as a mixed integer program for CBC (exact.hpp). One binary per pair of ops of a
// stage whose order is free; the microbatches of one kind keep their order.
#include "plan/exact.hpp"

#include <fmt/format.h>

#if ADAPTRA_HAVE_CBC
#include "plan/check.hpp"
#include "plan/generate.hpp"
#include "plan/simulate.hpp"

#include <coin/Cbc_C_Interface.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <tuple>
#endif

namespace adaptra::plan {

#if ADAPTRA_HAVE_CBC
namespace {

struct DeleteModel {
  void operator()(Cbc_Model* model) const { Cbc_deleteModel(model); }
};

using Terms = std::vector<std::pair<int, double>>;  // column, coefficient

class Program {
 public:
  Program(const Profile& p, const CbcOptions& options) : p_(p), o_(options), n_(p.microbatches) {
    for (std::size_t i = 0; i < p.forward_ns.size(); ++i) {
      unit_ = std::max({unit_, p.forward_ns[i], p.backward_input_ns[i], p.backward_weight_ns[i]});
      for (int k = 0; k < n_; ++k) horizon_ += stay(i, OpKind::forward);
      for (int k = 0; k < n_; ++k) horizon_ += stay(i, OpKind::backward_input);
      for (int k = 0; k < n_; ++k) horizon_ += stay(i, OpKind::backward_weight);
    }
    for (const Link& l : p.links) {
      horizon_ += n_ * (l.forward_delay_ns + l.forward_occupancy_ns + l.backward_delay_ns +
                        l.backward_occupancy_ns);
    }
  }

  Result<ExactResult> solve() {
    Cbc_setLogLevel(model_.get(), 0);
    columns();
    for (int i = 0; i < p_.stages; ++i) {
      stage_rows(i);
      memory_rows(i);
      if (i > 0) link_rows(i - 1);
    }
    Cbc_setObjSense(model_.get(), 1.0);
    Cbc_setParameter(model_.get(), "timeMode", "elapsed");
    Cbc_setParameter(model_.get(), "seconds", fmt::format("{:.3f}", o_.time_limit_s).c_str());
    Cbc_solve(model_.get());
    return read();
  }

 private:
  double scaled(std::int64_t ns) const {
    return static_cast<double>(ns) / static_cast<double>(unit_);
  }
  std::int64_t took(std::size_t i, OpKind kind) const {
    return kind == OpKind::forward          ? p_.forward_ns[i]
           : kind == OpKind::backward_input ? p_.backward_input_ns[i]
                                            : p_.backward_weight_ns[i];
  }
  // How long the stage is taken: a direct link holds it after the op.
  std::int64_t stay(std::size_t i, OpKind kind) const {
    std::int64_t held = 0;
    if (kind == OpKind::forward && i < p_.links.size()) {
      const Link& l = p_.links[i];
      if (l.mode == LinkMode::direct) {
        held = l.forward_hold_ns >= 0 ? l.forward_hold_ns
                                      : l.forward_delay_ns + l.forward_occupancy_ns;
      }
    } else if (kind == OpKind::backward_input && i > 0) {
      const Link& l = p_.links[i - 1];
      if (l.mode == LinkMode::direct) {
        held = l.backward_hold_ns >= 0 ? l.backward_hold_ns
                                       : l.backward_delay_ns + l.backward_occupancy_ns;
      }
    }
    return took(i, kind) + held;
  }

  int column(double low, double high, double cost, char integer) {
    Cbc_addCol(model_.get(), fmt::format("c{}", columns_).c_str(), low, high, cost, integer, 0,
               nullptr, nullptr);
    return columns_++;
  }
  void row(const Terms& terms, char sense, double right) {
    std::vector<int> at;
    std::vector<double> value;
    for (const auto& [c, v] : terms) {
      at.push_back(c);
      value.push_back(v);
    }
    Cbc_addRow(model_.get(), fmt::format("r{}", rows_++).c_str(), static_cast<int>(at.size()),
               at.data(), value.data(), sense, right);
  }

  int start(int stage, OpKind kind, int k) const {
    return 1 + (stage * 3 + static_cast<int>(kind)) * n_ + k;
  }

  void columns() {
    column(0.0, scaled(horizon_), 1.0, 0);  // the makespan
    for (int c = 0; c < 3 * n_ * p_.stages; ++c) column(0.0, scaled(horizon_), 0.0, 0);
  }

  // start(b) >= start(a) + gap
  void after(int a, int b, std::int64_t gap) { row({{b, 1.0}, {a, -1.0}}, 'G', scaled(gap)); }

  // The binary "first before second" of a free pair on a stage.
  int before(int stage, OpKind first, int j, OpKind second, int k) {
    const auto key = std::make_tuple(stage, first, j, second, k);
    const auto found = pairs_.find(key);
    if (found != pairs_.end()) return found->second;
    const int y = column(0.0, 1.0, 0.0, 1);
    const auto i = static_cast<std::size_t>(stage);
    const int a = start(stage, first, j);
    const int b = start(stage, second, k);
    const double big = scaled(horizon_);
    // y = 1: b >= a + stay(a); y = 0: a >= b + stay(b).
    row({{b, 1.0}, {a, -1.0}, {y, -big}}, 'G', scaled(stay(i, first)) - big);
    row({{a, 1.0}, {b, -1.0}, {y, big}}, 'G', scaled(stay(i, second)));
    return pairs_[key] = y;
  }

  void stage_rows(int stage) {
    const auto i = static_cast<std::size_t>(stage);
    for (const OpKind kind : {OpKind::forward, OpKind::backward_input, OpKind::backward_weight}) {
      for (int k = 1; k < n_; ++k) {
        after(start(stage, kind, k - 1), start(stage, kind, k), stay(i, kind));
      }
      row({{0, 1.0}, {start(stage, kind, n_ - 1), -1.0}}, 'G', scaled(took(i, kind)));
    }
    for (int k = 0; k < n_; ++k) {
      after(start(stage, OpKind::forward, k), start(stage, OpKind::backward_input, k),
            stay(i, OpKind::forward));
      after(start(stage, OpKind::backward_input, k), start(stage, OpKind::backward_weight, k),
            stay(i, OpKind::backward_input));
      for (int j = k + 1; j < n_; ++j) {
        before(stage, OpKind::backward_input, k, OpKind::forward, j);
        before(stage, OpKind::backward_weight, k, OpKind::forward, j);
        before(stage, OpKind::backward_weight, k, OpKind::backward_input, j);
      }
      if (o_.in_flight_limit > 0 && k + o_.in_flight_limit < n_) {
        after(start(stage, OpKind::backward_weight, k),
              start(stage, OpKind::forward, k + o_.in_flight_limit),
              stay(i, OpKind::backward_weight));
      }
    }
  }

  // Bytes at the start of each F and B are linear in the binaries.
  void memory_rows(int stage) {
    const auto i = static_cast<std::size_t>(stage);
    if (p_.memory_limit_bytes[i] == unlimited_bytes) return;
    const double mega = 1e-6 * static_cast<double>(std::max<std::int64_t>(
                                   1'000'000, p_.memory_limit_bytes[i] / 100));
    const auto bytes = [&](std::int64_t b) { return 1e-6 * static_cast<double>(b) / mega; };
    const double act = bytes(p_.activation_bytes[i]);
    const double act_w = bytes(p_.activation_bytes_after_b[i]);
    const double room = bytes(p_.memory_limit_bytes[i] - p_.workspace_bytes[i]);
    for (int j = 0; j < n_; ++j) {
      // At F j: earlier microbatch k holds act, or act_w if its B, or nothing if its W came before.
      Terms f;
      for (int k = 0; k < j; ++k) {
        f.emplace_back(before(stage, OpKind::backward_input, k, OpKind::forward, j), act_w - act);
        f.emplace_back(before(stage, OpKind::backward_weight, k, OpKind::forward, j), -act_w);
      }
      if (!f.empty()) row(f, 'L', room - act * (j + 1));
      // At B j: later microbatches hold act if their F came before, earlier ones act_w unless their
      // W came before.
      Terms b;
      for (int k = j + 1; k < n_; ++k) {
        b.emplace_back(before(stage, OpKind::backward_input, j, OpKind::forward, k), -act);
      }
      for (int k = 0; k < j; ++k) {
        b.emplace_back(before(stage, OpKind::backward_weight, k, OpKind::backward_input, j),
                       -act_w);
      }
      if (!b.empty()) {
        row(b, 'L', room - std::max(act, act_w) - act * (n_ - 1 - j) - act_w * j);
      }
    }
  }

  void link_rows(int link) {
    const Link& l = p_.links[static_cast<std::size_t>(link)];
    message_rows(link, link + 1, OpKind::forward, l.forward_occupancy_ns, l.forward_delay_ns);
    message_rows(link + 1, link, OpKind::backward_input, l.backward_occupancy_ns,
                 l.backward_delay_ns);
  }
  void message_rows(int from, int to, OpKind kind, std::int64_t occupancy, std::int64_t delay) {
    const std::int64_t op = took(static_cast<std::size_t>(from), kind);
    int last = -1;
    for (int k = 0; k < n_; ++k) {
      if (occupancy == 0) {
        after(start(from, kind, k), start(to, kind, k), op + delay);
        continue;
      }
      const int left = column(0.0, scaled(horizon_), 0.0, 0);  // the wire is free again
      after(start(from, kind, k), left, op + occupancy);
      if (last >= 0) after(last, left, occupancy);
      after(left, start(to, kind, k), delay);
      last = left;
    }
  }

  Result<ExactResult> read() {
    const bool proven = Cbc_isProvenOptimal(model_.get()) != 0;
    const double objective = Cbc_getObjValue(model_.get());
    const double bound =
        proven ? objective : std::min(objective, Cbc_getBestPossibleObjValue(model_.get()));
    if (!proven && (Cbc_isProvenInfeasible(model_.get()) != 0 || !(std::abs(objective) < 1e30))) {
      return Error(ExitCode::impossible_plan,
                   fmt::format("CBC found no order in {:.1f} s; give it more time (--budget-ms)",
                               o_.time_limit_s));
    }
    const double* x = Cbc_getColSolution(model_.get());
    ExactResult result;
    for (int i = 0; i < p_.stages; ++i) {
      std::vector<std::tuple<double, int, int>> ops;
      for (int kind = 0; kind < 3; ++kind) {
        for (int k = 0; k < n_; ++k) {
          // Starts are rounded to CBC's tolerance, so that equal ones fall back on F before B
          // before W.
          const double at = x[start(i, static_cast<OpKind>(kind), k)];
          ops.emplace_back(std::round(at * 1e6), kind, k);
        }
      }
      std::sort(ops.begin(), ops.end());
      std::vector<Op> row;
      for (const auto& [at, kind, k] : ops) row.push_back({static_cast<OpKind>(kind), k});
      result.order.stages.push_back(std::move(row));
    }
    CheckOptions rules;
    rules.in_flight_limit = o_.in_flight_limit;
    const Status valid = require_valid(p_, result.order, rules);
    if (!valid) return valid.error();
    const Result<Schedule> schedule = simulate(p_, result.order);
    if (!schedule) return schedule.error();
    result.makespan_ns = schedule.value().makespan_ns;
    // CBC works to a relative tolerance of about 1e-7 of its numbers.
    result.bound_ns =
        static_cast<std::int64_t>(std::max(0.0, bound * (1.0 - 1e-6)) * static_cast<double>(unit_));
    if (proven) result.bound_ns = result.makespan_ns;
    result.optimal = proven;
    result.solver = fmt::format("cbc {} ({}, limit {:.0f} s)", Cbc_getVersion(),
                                proven ? "optimal" : "stopped at its time limit", o_.time_limit_s);
    return result;
  }

  const Profile& p_;
  const CbcOptions& o_;
  int n_;
  std::int64_t unit_ = 1;
  std::int64_t horizon_ = 0;  // all ops and messages end to end
  std::unique_ptr<Cbc_Model, DeleteModel> model_{Cbc_newModel()};
  int columns_ = 0;
  int rows_ = 0;
  std::map<std::tuple<int, OpKind, int, OpKind, int>, int> pairs_;
};

}  // namespace

bool has_cbc() {
  return true;
}

Result<ExactResult> solve_with_cbc(const Profile& profile, const CbcOptions& options) {
  const Status fits = require_one_microbatch(profile);
  if (!fits) return fits.error();
  return Program(profile, options).solve();
}

#else

bool has_cbc() {
  return false;
}

Result<ExactResult> solve_with_cbc(const Profile& profile, const CbcOptions&) {
  return Error(ExitCode::environment,
               fmt::format("policy exact: {} stages with {} microbatches are too many to try every "
                           "order, and this build has no CBC; install coinor-libcbc-dev and "
                           "configure again, or use the policy adaptra and its lower bound",
                           profile.stages, profile.microbatches));
}

#endif

}  // namespace adaptra::plan
