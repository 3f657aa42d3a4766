#include "plan/generate.hpp"

#include "core/text.hpp"
#include "plan/check.hpp"
#include "plan/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <queue>

namespace adaptra::plan {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

// One stage while its order is being made.
struct StageState {
  std::int64_t free_ns = 0;
  std::array<int, 3> done{};  // ops of each kind started
  std::int64_t held = 0;      // bytes
  bool last_was_forward = false;
};

class Generator {
 public:
  Generator(const Profile& p, const GenerateRule& rule)
      : p_(p), rule_(rule), n_(p.microbatches), stages_(static_cast<std::size_t>(p.stages)) {
    order_.stages.resize(stages_.size());
    for (auto& row : order_.stages) row.reserve(3 * static_cast<std::size_t>(n_));
    const std::vector<std::int64_t> none(static_cast<std::size_t>(n_), never);
    f_ready_.assign(stages_.size(), none);
    b_ready_.assign(stages_.size(), none);
    w_ready_.assign(stages_.size(), none);
    std::fill(f_ready_[0].begin(), f_ready_[0].end(), 0);
    down_free_.assign(stages_.size(), 0);
    up_free_.assign(stages_.size(), 0);
  }

  Result<Order> run() {
    for (std::size_t i = 0; i < stages_.size(); ++i) wake(0, i);
    std::vector<std::size_t> woken;
    while (!events_.empty()) {
      const std::int64_t now = events_.top().first;
      woken.clear();
      while (!events_.empty() && events_.top().first == now) {
        woken.push_back(events_.top().second);
        events_.pop();
      }
      for (const std::size_t stage : woken) {
        if (stages_[stage].free_ns <= now) decide(stage, now);
      }
    }
    for (const auto& row : order_.stages) {
      if (row.size() != 3 * static_cast<std::size_t>(n_)) {
        return Error(ExitCode::impossible_plan,
                     "the policy comes to a stop within these limits and warm-up counts");
      }
    }
    return std::move(order_);
  }

 private:
  using Event = std::pair<std::int64_t, std::size_t>;  // time, stage

  void wake(std::int64_t when, std::size_t stage) { events_.emplace(when, stage); }

  std::int64_t ready(std::size_t i, OpKind kind) const {
    const int k = stages_[i].done[static_cast<std::size_t>(kind)];
    if (k >= n_) return never;
    const auto m = static_cast<std::size_t>(k);
    return kind == OpKind::forward          ? f_ready_[i][m]
           : kind == OpKind::backward_input ? b_ready_[i][m]
                                            : w_ready_[i][m];
  }

  bool in_warmup(std::size_t i) const {
    return !rule_.warmup.empty() && stages_[i].done[1] == 0 && stages_[i].done[0] < rule_.warmup[i];
  }

  // May an F start, as far as limits go? Room is kept for the B that must be able to follow it.
  bool forward_fits(std::size_t i) const {
    const StageState& s = stages_[i];
    if (!rule_.in_flight_limit.empty() && s.done[0] - s.done[2] >= rule_.in_flight_limit[i]) {
      return false;
    }
    if (!rule_.warmup.empty() && s.done[1] == 0 && s.done[0] >= rule_.warmup[i]) return false;
    const std::int64_t reserve =
        std::max<std::int64_t>(0, p_.activation_bytes_after_b[i] - p_.activation_bytes[i]);
    return s.held + p_.activation_bytes[i] + reserve + p_.workspace_bytes[i] <=
           p_.memory_limit_bytes[i];
  }

  bool backward_fits(std::size_t i) const {
    if (in_warmup(i)) return false;
    const std::int64_t more =
        std::max<std::int64_t>(0, p_.activation_bytes_after_b[i] - p_.activation_bytes[i]);
    return stages_[i].held + more + p_.workspace_bytes[i] <= p_.memory_limit_bytes[i];
  }

  void decide(std::size_t i, std::int64_t now) {
    const bool f = ready(i, OpKind::forward) <= now && forward_fits(i);
    const bool b = ready(i, OpKind::backward_input) <= now && backward_fits(i);
    const bool w = ready(i, OpKind::backward_weight) <= now;
    const bool forward_first = rule_.prefer == GenerateRule::Prefer::alternate &&
                               stages_[i].done[1] > 0 && !stages_[i].last_was_forward;
    if (f && (forward_first || !b)) {
      start(i, OpKind::forward, now);
    } else if (b) {
      start(i, OpKind::backward_input, now);
    } else if (w && may_start_w(i, now)) {
      start(i, OpKind::backward_weight, now);
    }
  }

  // Whether to fill the wait with a W, or to stay free for an input that is on its way. An input
  // that the limits would not let in is no reason to wait.
  bool may_start_w(std::size_t i, std::int64_t now) const {
    if (rule_.w_fit <= 0.0) return true;
    std::int64_t next = never;
    if (forward_fits(i)) next = std::min(next, ready(i, OpKind::forward));
    if (backward_fits(i)) next = std::min(next, ready(i, OpKind::backward_input));
    if (next == never) return true;
    return static_cast<double>(next - now) >=
           rule_.w_fit * static_cast<double>(p_.backward_weight_ns[i]);
  }

  void start(std::size_t i, OpKind kind, std::int64_t now) {
    StageState& s = stages_[i];
    const int k = s.done[static_cast<std::size_t>(kind)]++;
    const auto m = static_cast<std::size_t>(k);
    order_.stages[i].push_back({kind, k});
    switch (kind) {
      case OpKind::forward: {
        const std::int64_t end = now + p_.forward_ns[i];
        s.free_ns = end;
        s.held += p_.activation_bytes[i];
        s.last_was_forward = true;
        if (i + 1 < stages_.size()) {
          const Link& l = p_.links[i];
          f_ready_[i + 1][m] = send(down_free_[i], end, l.forward_occupancy_ns, l.forward_delay_ns,
                                    l.forward_hold_ns, l.mode, s.free_ns);
          wake(f_ready_[i + 1][m], i + 1);
        } else {
          b_ready_[i][m] = end;
        }
        break;
      }
      case OpKind::backward_input: {
        const std::int64_t end = now + p_.backward_input_ns[i];
        s.free_ns = end;
        s.held += p_.activation_bytes_after_b[i] - p_.activation_bytes[i];
        s.last_was_forward = false;
        w_ready_[i][m] = end;
        if (i > 0) {
          const Link& l = p_.links[i - 1];
          b_ready_[i - 1][m] = send(up_free_[i], end, l.backward_occupancy_ns, l.backward_delay_ns,
                                    l.backward_hold_ns, l.mode, s.free_ns);
          wake(b_ready_[i - 1][m], i - 1);
        }
        break;
      }
      case OpKind::backward_weight:
        s.free_ns = now + p_.backward_weight_ns[i];
        s.held -= p_.activation_bytes_after_b[i];
        break;
    }
    wake(s.free_ns, i);
  }

  static std::int64_t send(std::int64_t& wire_free, std::int64_t end, std::int64_t occupancy,
                           std::int64_t delay, std::int64_t hold, LinkMode mode,
                           std::int64_t& stage_free) {
    wire_free = std::max(wire_free, end) + occupancy;
    const std::int64_t arrival = wire_free + delay;
    if (mode == LinkMode::direct) stage_free = hold < 0 ? arrival : end + hold;
    return arrival;
  }

  const Profile& p_;
  const GenerateRule& rule_;
  int n_;
  std::vector<StageState> stages_;
  Order order_;
  // [S][N] when the inputs of an op have arrived; `never` while unknown.
  std::vector<std::vector<std::int64_t>> f_ready_, b_ready_, w_ready_;
  std::vector<std::int64_t> down_free_, up_free_;  // [S] wire of link i / of link i - 1
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

struct PolicyName {
  Policy policy;
  std::string_view name;
};
constexpr std::array<PolicyName, 8> policy_names = {{{Policy::gpipe, "gpipe"},
                                                     {Policy::one_f_one_b, "1f1b"},
                                                     {Policy::zb_h1, "zb-h1"},
                                                     {Policy::zb_h2, "zb-h2"},
                                                     {Policy::greedy, "greedy"},
                                                     {Policy::slackness, "slackness"},
                                                     {Policy::adaptra, "adaptra"},
                                                     {Policy::exact, "exact"}}};

Order gpipe(const Profile& p) {
  Order order;
  for (int i = 0; i < p.stages; ++i) {
    std::vector<Op> row;
    for (int k = 0; k < p.microbatches; ++k) row.push_back({OpKind::forward, k});
    for (int k = 0; k < p.microbatches; ++k) {
      row.push_back({OpKind::backward_input, k});
      row.push_back({OpKind::backward_weight, k});
    }
    order.stages.push_back(std::move(row));
  }
  return order;
}

Order one_f_one_b(const Profile& p) {
  Order order;
  for (int i = 0; i < p.stages; ++i) {
    const int x = std::min(p.microbatches, p.stages - i);
    std::vector<Op> row;
    for (int k = 0; k < x; ++k) row.push_back({OpKind::forward, k});
    for (int k = 0; k < p.microbatches; ++k) {
      row.push_back({OpKind::backward_input, k});
      row.push_back({OpKind::backward_weight, k});
      if (x + k < p.microbatches) row.push_back({OpKind::forward, x + k});
    }
    order.stages.push_back(std::move(row));
  }
  return order;
}

// The most forwards that can wait for their B at once on a stage.
std::int64_t most_waiting(const Profile& p, std::size_t i, int in_flight_limit) {
  std::int64_t most = p.microbatches;
  if (in_flight_limit > 0) most = std::min<std::int64_t>(most, in_flight_limit);
  if (p.activation_bytes[i] > 0 && p.memory_limit_bytes[i] != unlimited_bytes) {
    const std::int64_t reserve =
        std::max<std::int64_t>(0, p.activation_bytes_after_b[i] - p.activation_bytes[i]);
    const std::int64_t room = p.memory_limit_bytes[i] - p.workspace_bytes[i] - reserve;
    most = std::min(most, room / p.activation_bytes[i]);
  }
  return most;
}

std::vector<int> limits(const Profile& p, int in_flight_limit) {
  return in_flight_limit > 0 ? std::vector<int>(static_cast<std::size_t>(p.stages), in_flight_limit)
                             : std::vector<int>();
}

Result<Generated> by_slackness(const Profile& p, int in_flight_limit) {
  const std::vector<std::int64_t> wanted = slackness_warmup(p);
  Generated out;
  GenerateRule rule;
  rule.in_flight_limit = limits(p, in_flight_limit);
  rule.warmup.resize(wanted.size());
  std::int64_t before = never;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    // A stage with fewer warm-up forwards than the next would wait for itself.
    const std::int64_t x = std::min({wanted[i], most_waiting(p, i, in_flight_limit), before});
    before = x;
    rule.warmup[i] = static_cast<int>(x);
    if (x != wanted[i]) {
      out.adjustments.push_back(fmt::format(
          "stage {}: warm-up {} instead of {} ({})", i, x, wanted[i],
          wanted[i] > p.microbatches && x == p.microbatches ? "microbatches" : "memory"));
    }
  }
  Result<Order> order = generate_by_simulation(p, rule);
  if (!order) return order.error();
  out.order = std::move(order).value();
  return out;
}

// ZeroBubble's automatic scheduler: a few fixed settings of its knobs, the best by simulation.
Result<Generated> zero_bubble(const Profile& p, int in_flight, int in_flight_limit) {
  const int limit = in_flight_limit > 0 ? std::min(in_flight, in_flight_limit) : in_flight;
  Generated best;
  std::int64_t best_ns = never;
  for (const GenerateRule::Prefer prefer :
       {GenerateRule::Prefer::alternate, GenerateRule::Prefer::backward}) {
    for (const double fit : {0.0, 0.5, 1.0}) {
      GenerateRule rule;
      rule.in_flight_limit = limits(p, limit);
      rule.prefer = prefer;
      rule.w_fit = fit;
      Result<Order> order = generate_by_simulation(p, rule);
      if (!order) return order.error();
      const Result<Schedule> schedule = simulate(p, order.value());
      if (!schedule) return schedule.error();
      if (schedule.value().makespan_ns < best_ns) {
        best_ns = schedule.value().makespan_ns;
        best.order = std::move(order).value();
      }
    }
  }
  return best;
}

}  // namespace

std::string_view to_string(Policy policy) {
  for (const PolicyName& entry : policy_names) {
    if (entry.policy == policy) return entry.name;
  }
  return "?";
}

Result<Policy> parse_policy(std::string_view name) {
  std::vector<std::string> known;
  for (const PolicyName& entry : policy_names) {
    if (entry.name == name) return entry.policy;
    known.emplace_back(entry.name);
  }
  const std::string near = nearest_name(name, known);
  return Error(ExitCode::usage, fmt::format("unknown policy \"{}\"{}; known: {}", name,
                                            near.empty() ? "" : ", did you mean \"" + near + "\"?",
                                            fmt::join(known, ", ")));
}

Result<Order> generate_by_simulation(const Profile& profile, const GenerateRule& rule) {
  const Status fits = require_one_microbatch(profile);
  if (!fits) return fits.error();
  return Generator(profile, rule).run();
}

Status require_one_microbatch(const Profile& p) {
  std::string text;
  for (std::size_t i = 0; i < p.memory_limit_bytes.size(); ++i) {
    const std::int64_t needed =
        p.workspace_bytes[i] + std::max(p.activation_bytes[i], p.activation_bytes_after_b[i]);
    if (needed <= p.memory_limit_bytes[i]) continue;
    text +=
        fmt::format("\n  memory_limit_bytes[{}]: {} bytes, but one microbatch on stage {} needs {}",
                    i, p.memory_limit_bytes[i], i, needed);
  }
  if (text.empty()) return {};
  return Error(ExitCode::impossible_plan,
               "no plan is possible:" + text +
                   "\n  give the stage more memory, a smaller microbatch or fewer layers");
}

std::vector<std::int64_t> slackness_warmup(const Profile& p) {
  std::vector<std::int64_t> x(static_cast<std::size_t>(p.stages), 1);
  for (std::size_t i = x.size() - 1; i-- > 0;) {
    const Link& link = p.links[i];
    const std::int64_t need =
        p.forward_ns[i] + p.backward_input_ns[i] + link.forward_delay_ns + link.backward_delay_ns;
    const std::int64_t unit =
        std::max<std::int64_t>(1, p.forward_ns[i + 1] + p.backward_input_ns[i + 1]);
    // Beyond N warm-up forwards nothing changes; the bound keeps sums small.
    const std::int64_t d = std::min<std::int64_t>((need + unit - 1) / unit, 1'000'000'000);
    x[i] = x[i + 1] + std::max<std::int64_t>(1, d);
  }
  return x;
}

Result<Generated> generate(const Profile& p, Policy policy, int in_flight_limit) {
  const Status fits = require_one_microbatch(p);
  if (!fits) return fits.error();
  Generated out;
  switch (policy) {
    case Policy::gpipe:
      out.order = gpipe(p);
      break;
    case Policy::one_f_one_b:
      out.order = one_f_one_b(p);
      break;
    case Policy::zb_h1:
      return zero_bubble(p, p.stages, in_flight_limit);
    case Policy::zb_h2:
      return zero_bubble(p, 2 * p.stages, in_flight_limit);
    case Policy::greedy: {
      GenerateRule rule;
      rule.in_flight_limit = limits(p, in_flight_limit);
      Result<Order> order = generate_by_simulation(p, rule);
      if (!order) return order.error();
      out.order = std::move(order).value();
      return out;
    }
    case Policy::slackness:
      return by_slackness(p, in_flight_limit);
    case Policy::adaptra:
    case Policy::exact:
      return Error(ExitCode::internal, "generate: not a baseline policy");
  }
  // The fixed patterns do not look at the limits.
  CheckOptions options;
  options.in_flight_limit = in_flight_limit;
  const Status valid = require_valid(p, out.order, options);
  if (!valid) {
    return Error(valid.error().code(), fmt::format("policy {} does not fit the memory: {}",
                                                   to_string(policy), valid.error().what()));
  }
  return out;
}

}  // namespace adaptra::plan
