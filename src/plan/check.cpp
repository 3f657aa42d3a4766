#include "plan/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace adaptra::plan {
namespace {

constexpr std::size_t most_violations = 50;

// The graph: one node per op, edges to what must come first. Nodes are numbered stage by stage.
class Judge {
 public:
  Judge(const Profile& p, const Order& order, const CheckOptions& options)
      : p_(p), order_(order), options_(options) {}

  CheckReport run() {
    if (order_.stages.size() != static_cast<std::size_t>(p_.stages)) {
      add(0, -1,
          fmt::format("the order has {} stages, the profile {}", order_.stages.size(), p_.stages));
      return report_;
    }
    for (int stage = 0; stage < p_.stages; ++stage) check_ops(stage);
    if (report_.ok()) {
      for (int stage = 0; stage < p_.stages; ++stage) check_memory(stage);
      check_cycles();
    }
    return report_;
  }

 private:
  void add(int stage, int position, std::string rule) {
    if (report_.violations.size() < most_violations) {
      report_.violations.push_back({stage, position, std::move(rule)});
    }
  }

  const std::vector<Op>& ops(int stage) const {
    return order_.stages[static_cast<std::size_t>(stage)];
  }

  void check_ops(int stage) {
    std::set<std::pair<int, int>> seen;  // kind, microbatch
    std::map<OpKind, int> last;
    const auto& row = ops(stage);
    for (std::size_t at = 0; at < row.size(); ++at) {
      const Op op = row[at];
      const int position = static_cast<int>(at);
      if (op.microbatch < 0 || op.microbatch >= p_.microbatches) {
        add(stage, position,
            fmt::format("{}: there are only {} microbatches", to_string(op), p_.microbatches));
        continue;
      }
      if (!seen.emplace(static_cast<int>(op.kind), op.microbatch).second) {
        add(stage, position, fmt::format("{} comes a second time", to_string(op)));
        continue;
      }
      const auto before = last.find(op.kind);
      if (before != last.end() && op.microbatch < before->second) {
        add(stage, position,
            fmt::format("{} after {}{}: microbatches of one kind run in order, so that gradients "
                        "are summed in one order",
                        to_string(op), letter(op.kind), before->second));
      }
      last[op.kind] = op.microbatch;
      if (op.kind == OpKind::backward_input &&
          !seen.contains({static_cast<int>(OpKind::forward), op.microbatch})) {
        add(stage, position, fmt::format("{} before F{}", to_string(op), op.microbatch));
      }
      if (op.kind == OpKind::backward_weight &&
          !seen.contains({static_cast<int>(OpKind::backward_input), op.microbatch})) {
        add(stage, position, fmt::format("{} before B{}", to_string(op), op.microbatch));
      }
    }
    for (const OpKind kind : {OpKind::forward, OpKind::backward_input, OpKind::backward_weight}) {
      for (int k = 0; k < p_.microbatches; ++k) {
        if (!seen.contains({static_cast<int>(kind), k})) {
          add(stage, -1, fmt::format("{}{} is missing", letter(kind), k));
          break;
        }
      }
    }
  }

  // Walks the states of every microbatch: alive with inputs, in its B, alive for its W.
  void check_memory(int stage) {
    const auto i = static_cast<std::size_t>(stage);
    const std::int64_t limit = p_.memory_limit_bytes[i];
    std::int64_t waiting_b = 0;
    std::int64_t waiting_w = 0;
    const auto& row = ops(stage);
    for (std::size_t at = 0; at < row.size(); ++at) {
      std::int64_t needed = p_.workspace_bytes[i];
      if (row[at].kind == OpKind::forward) {
        ++waiting_b;
        needed += waiting_b * p_.activation_bytes[i] + waiting_w * p_.activation_bytes_after_b[i];
      } else if (row[at].kind == OpKind::backward_input) {
        --waiting_b;
        needed += waiting_b * p_.activation_bytes[i] + waiting_w * p_.activation_bytes_after_b[i] +
                  std::max(p_.activation_bytes[i], p_.activation_bytes_after_b[i]);
        ++waiting_w;
      } else {
        needed += waiting_b * p_.activation_bytes[i] + waiting_w * p_.activation_bytes_after_b[i];
        --waiting_w;
      }
      const std::int64_t in_flight =
          waiting_b + waiting_w + (row[at].kind == OpKind::backward_weight ? 1 : 0);
      if (needed > limit) {
        add(stage, static_cast<int>(at),
            fmt::format("{} needs {} bytes of {} at this point", to_string(row[at]), needed,
                        limit));
        return;
      }
      if (options_.in_flight_limit > 0 && in_flight > options_.in_flight_limit) {
        add(stage, static_cast<int>(at),
            fmt::format("{} makes {} microbatches in flight, at most {} are allowed",
                        to_string(row[at]), in_flight, options_.in_flight_limit));
        return;
      }
    }
  }

  // Removes ops that nothing holds back until none is left (Kahn); what remains is cyclic. Two
  // nodes per op: it has ended, and the stage is free again after it. They differ where a send
  // waits.
  void check_cycles() {
    const auto n = static_cast<std::size_t>(p_.microbatches);
    const std::size_t row = 3 * n;
    const std::size_t ops = row * order_.stages.size();
    std::vector<std::vector<std::size_t>> after(2 * ops);
    std::vector<int> blocked(2 * ops, 0);
    std::vector<std::size_t> place(ops);  // node of (stage, kind, microbatch)
    const auto name = [&](std::size_t stage, OpKind kind, std::size_t k) {
      return stage * row + static_cast<std::size_t>(kind) * n + k;
    };
    const auto edge = [&](std::size_t from, std::size_t to) {
      after[from].push_back(to);
      ++blocked[to];
    };
    for (std::size_t i = 0; i < order_.stages.size(); ++i) {
      for (std::size_t at = 0; at < row; ++at) {
        const Op op = order_.stages[i][at];
        const std::size_t node = i * row + at;
        place[name(i, op.kind, static_cast<std::size_t>(op.microbatch))] = node;
        edge(node, ops + node);
        if (at > 0) edge(ops + node - 1, node);
      }
    }
    for (std::size_t i = 1; i < order_.stages.size(); ++i) {
      const bool waits =
          p_.links[i - 1].mode == LinkMode::direct && options_.send_rule == SendRule::rendezvous;
      const auto message = [&](std::size_t from, std::size_t to) {
        edge(from, to);
        // The receiver stands before the matching op once it is free after the one before.
        if (waits && to % row > 0) edge(ops + to - 1, ops + from);
      };
      for (std::size_t k = 0; k < n; ++k) {
        message(place[name(i - 1, OpKind::forward, k)], place[name(i, OpKind::forward, k)]);
        message(place[name(i, OpKind::backward_input, k)],
                place[name(i - 1, OpKind::backward_input, k)]);
      }
    }
    remove_free(after, blocked);
  }

  void remove_free(const std::vector<std::vector<std::size_t>>& after, std::vector<int>& blocked) {
    const std::size_t row = 3 * static_cast<std::size_t>(p_.microbatches);
    const std::size_t ops = row * order_.stages.size();
    std::vector<std::size_t> free;
    std::vector<std::size_t> done(order_.stages.size(), 0);
    for (std::size_t node = 0; node < blocked.size(); ++node) {
      if (blocked[node] == 0) free.push_back(node);
    }
    while (!free.empty()) {
      const std::size_t node = free.back();
      free.pop_back();
      if (node < ops) ++done[node / row];
      for (const std::size_t next : after[node]) {
        if (--blocked[next] == 0) free.push_back(next);
      }
    }
    for (std::size_t i = 0; i < order_.stages.size(); ++i) {
      if (done[i] == row) continue;
      add(static_cast<int>(i), static_cast<int>(done[i]),
          fmt::format("{} can never start: it is part of a cycle of stages that wait for each "
                      "other",
                      to_string(order_.stages[i][done[i]])));
    }
  }

  const Profile& p_;
  const Order& order_;
  const CheckOptions& options_;
  CheckReport report_;
};

}  // namespace

CheckReport check(const Profile& profile, const Order& order, const CheckOptions& options) {
  return Judge(profile, order, options).run();
}

Status require_valid(const Profile& profile, const Order& order, const CheckOptions& options) {
  const CheckReport report = check(profile, order, options);
  if (report.ok()) return {};
  return Error(ExitCode::impossible_plan, "the plan cannot run:\n" + marked_grid(order, report));
}

std::string marked_grid(const Order& order, const CheckReport& report) {
  std::set<std::pair<int, int>> marked;
  for (const Violation& violation : report.violations) {
    marked.emplace(violation.stage, violation.position);
  }
  // A long row is shown around its first bad cell.
  constexpr int window = 24;
  std::string text;
  for (std::size_t i = 0; i < order.stages.size() && i < 64; ++i) {
    const int stage = static_cast<int>(i);
    const int length = static_cast<int>(order.stages[i].size());
    const auto first = marked.lower_bound({stage, 0});
    const int bad = first != marked.end() && first->first == stage ? first->second : 0;
    const int begin = length <= window ? 0 : std::clamp(bad - window / 2, 0, length - window);
    const int end = std::min(length, begin + window);
    text += fmt::format("stage {:>3} |{}", stage, begin > 0 ? " ..." : "");
    for (int at = begin; at < end; ++at) {
      const std::string op = to_string(order.stages[i][static_cast<std::size_t>(at)]);
      text += marked.contains({stage, at}) ? fmt::format("[{}]", op) : fmt::format(" {} ", op);
    }
    text += end < length ? "...\n" : "\n";
  }
  for (const Violation& violation : report.violations) {
    text += fmt::format("stage {}", violation.stage);
    if (violation.position >= 0) text += fmt::format(", op {}", violation.position);
    text += ": " + violation.rule + "\n";
  }
  return text;
}

}  // namespace adaptra::plan
