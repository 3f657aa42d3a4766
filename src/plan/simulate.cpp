#include "plan/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace adaptra::plan {
namespace {

constexpr std::int64_t not_yet = -1;

// Every op exactly once, microbatches of each kind in order: what the pass below relies on.
Status check_shape(const Profile& p, const Order& order) {
  if (order.stages.size() != static_cast<std::size_t>(p.stages)) {
    return Error(ExitCode::impossible_plan, fmt::format("the order has {} stages, the profile {}",
                                                        order.stages.size(), p.stages));
  }
  for (std::size_t i = 0; i < order.stages.size(); ++i) {
    int next[3] = {0, 0, 0};
    for (const Op op : order.stages[i]) {
      int& expected = next[static_cast<int>(op.kind)];
      if (op.microbatch != expected) {
        return Error(ExitCode::impossible_plan,
                     fmt::format("stage {}: {} where {}{} is due (each op once, microbatches in "
                                 "order)",
                                 i, to_string(op), letter(op.kind), expected));
      }
      ++expected;
    }
    for (const OpKind kind : {OpKind::forward, OpKind::backward_input, OpKind::backward_weight}) {
      const int count = next[static_cast<int>(kind)];
      if (count != p.microbatches) {
        return Error(ExitCode::impossible_plan, fmt::format("stage {}: {} of {} {} ops", i, count,
                                                            p.microbatches, letter(kind)));
      }
    }
  }
  return {};
}

class Simulation {
 public:
  Simulation(const Profile& p, const Order& order) : p_(p), order_(order) {
    const auto stages = static_cast<std::size_t>(p.stages);
    const auto n = static_cast<std::size_t>(p.microbatches);
    out_.ops.resize(stages);
    for (std::size_t i = 0; i < stages; ++i) out_.ops[i].reserve(order.stages[i].size());
    out_.busy_ns.assign(stages, 0);
    const MessageTimes none{std::vector<std::int64_t>(n, not_yet),
                            std::vector<std::int64_t>(n, not_yet)};
    out_.forward.assign(stages - 1, none);
    out_.backward.assign(stages - 1, none);
    free_.assign(stages, 0);
    forward_end_.assign(stages, std::vector<std::int64_t>(n, not_yet));
    backward_end_.assign(stages, std::vector<std::int64_t>(n, not_yet));
  }

  Result<Schedule> run() {
    // Stages whose neighbours moved; each op is executed once and wakes at most two stages.
    std::vector<std::size_t> awake;
    for (std::size_t i = out_.ops.size(); i-- > 0;) awake.push_back(i);
    while (!awake.empty()) {
      const std::size_t stage = awake.back();
      awake.pop_back();
      const std::size_t before = out_.ops[stage].size();
      while (step(stage)) {
      }
      if (out_.ops[stage].size() == before) continue;
      if (stage > 0) awake.push_back(stage - 1);
      if (stage + 1 < out_.ops.size()) awake.push_back(stage + 1);
    }
    for (std::size_t i = 0; i < out_.ops.size(); ++i) {
      if (out_.ops[i].size() != order_.stages[i].size()) return never_ends();
    }
    finish();
    return std::move(out_);
  }

 private:
  // When the inputs of an op are there, or not_yet.
  std::int64_t ready(std::size_t stage, Op op) const {
    const auto k = static_cast<std::size_t>(op.microbatch);
    switch (op.kind) {
      case OpKind::forward:
        return stage == 0 ? 0 : out_.forward[stage - 1].arrived_ns[k];
      case OpKind::backward_input: {
        const std::int64_t own = forward_end_[stage][k];
        if (stage + 1 == out_.ops.size() || own == not_yet) return own;
        const std::int64_t gradient = out_.backward[stage].arrived_ns[k];
        return gradient == not_yet ? not_yet : std::max(own, gradient);
      }
      case OpKind::backward_weight:
        return backward_end_[stage][k];
    }
    return not_yet;
  }

  bool step(std::size_t stage) {
    const std::size_t at = out_.ops[stage].size();
    if (at == order_.stages[stage].size()) return false;
    const Op op = order_.stages[stage][at];
    const std::int64_t input = ready(stage, op);
    if (input == not_yet) return false;
    const std::int64_t start = std::max(free_[stage], input);
    const std::int64_t took = duration(stage, op.kind);
    const std::int64_t end = start + took;
    out_.ops[stage].push_back({start, end});
    out_.busy_ns[stage] += took;
    free_[stage] = end;
    const auto k = static_cast<std::size_t>(op.microbatch);
    if (op.kind == OpKind::forward) {
      forward_end_[stage][k] = end;
      if (stage + 1 < out_.ops.size()) {
        const Link& link = p_.links[stage];
        send(out_.forward[stage], k, end, link.forward_occupancy_ns, link.forward_delay_ns,
             link.forward_hold_ns, link.mode, free_[stage]);
      }
    } else if (op.kind == OpKind::backward_input) {
      backward_end_[stage][k] = end;
      if (stage > 0) {
        const Link& link = p_.links[stage - 1];
        send(out_.backward[stage - 1], k, end, link.backward_occupancy_ns, link.backward_delay_ns,
             link.backward_hold_ns, link.mode, free_[stage]);
      }
    }
    return true;
  }

  static void send(MessageTimes& wire, std::size_t k, std::int64_t end, std::int64_t occupancy,
                   std::int64_t delay, std::int64_t hold, LinkMode mode, std::int64_t& free) {
    const std::int64_t begin = k == 0 ? end : std::max(end, wire.left_ns[k - 1]);
    wire.left_ns[k] = begin + occupancy;
    wire.arrived_ns[k] = begin + occupancy + delay;
    if (mode == LinkMode::direct) free = hold < 0 ? wire.arrived_ns[k] : end + hold;
  }

  std::int64_t duration(std::size_t stage, OpKind kind) const {
    switch (kind) {
      case OpKind::forward:
        return p_.forward_ns[stage];
      case OpKind::backward_input:
        return p_.backward_input_ns[stage];
      case OpKind::backward_weight:
        return p_.backward_weight_ns[stage];
    }
    return 0;
  }

  Error never_ends() const {
    std::string text = "the order never ends; each stage waits for another:";
    int shown = 0;
    for (std::size_t i = 0; i < out_.ops.size() && shown < 8; ++i) {
      if (out_.ops[i].size() == order_.stages[i].size()) continue;
      const Op op = order_.stages[i][out_.ops[i].size()];
      text += fmt::format("\n  stage {} at {}", i, to_string(op));
      ++shown;
    }
    return Error(ExitCode::impossible_plan, text);
  }

  void finish() {
    for (std::size_t i = 0; i < out_.ops.size(); ++i) {
      if (!out_.ops[i].empty()) {
        out_.makespan_ns = std::max(out_.makespan_ns, out_.ops[i].back().end_ns);
      }
      out_.peak_bytes.push_back(peak_bytes(p_, static_cast<int>(i), order_.stages[i]));
      out_.in_flight_peak.push_back(in_flight_peak(order_.stages[i]));
    }
    for (const std::int64_t busy : out_.busy_ns) {
      out_.bubble.push_back(out_.makespan_ns == 0
                                ? 0.0
                                : 1.0 - static_cast<double>(busy) /
                                            static_cast<double>(out_.makespan_ns));
    }
  }

  const Profile& p_;
  const Order& order_;
  Schedule out_;
  std::vector<std::int64_t> free_;                       // [S] when the stage may start its next op
  std::vector<std::vector<std::int64_t>> forward_end_;   // [S][N]
  std::vector<std::vector<std::int64_t>> backward_end_;  // [S][N]
};

}  // namespace

Result<Schedule> simulate(const Profile& profile, const Order& order) {
  const Status shape = check_shape(profile, order);
  if (!shape) return shape.error();
  return Simulation(profile, order).run();
}

std::int64_t peak_bytes(const Profile& profile, int stage, const std::vector<Op>& ops) {
  const auto i = static_cast<std::size_t>(stage);
  const std::int64_t before = profile.activation_bytes[i];
  const std::int64_t after = profile.activation_bytes_after_b[i];
  const std::int64_t workspace = profile.workspace_bytes[i];
  std::int64_t held = 0;
  std::int64_t peak = 0;
  for (const Op op : ops) {
    switch (op.kind) {
      case OpKind::forward:
        held += before;
        peak = std::max(peak, held + workspace);
        break;
      case OpKind::backward_input:
        peak = std::max(peak, held - before + std::max(before, after) + workspace);
        held += after - before;
        break;
      case OpKind::backward_weight:
        peak = std::max(peak, held + workspace);
        held -= after;
        break;
    }
  }
  return peak;
}

int in_flight_peak(const std::vector<Op>& ops) {
  int now = 0;
  int peak = 0;
  for (const Op op : ops) {
    now += op.kind == OpKind::forward ? 1 : (op.kind == OpKind::backward_weight ? -1 : 0);
    peak = std::max(peak, now);
  }
  return peak;
}

}  // namespace adaptra::plan
