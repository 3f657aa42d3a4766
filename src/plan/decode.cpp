#include "plan/decode.hpp"

#include <algorithm>
#include <limits>

namespace adaptra::plan {
namespace {

constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();
constexpr double never_give_up = 9e18;

// How often `size` bytes fit into `room`; at most `most`.
std::int64_t fits(std::int64_t room, std::int64_t size, std::int64_t most) {
  if (room < 0) return -1;
  return size == 0 ? most : std::min(most, room / size);
}

}  // namespace

Decoder::Decoder(const Profile& p, int in_flight_limit)
    : stages_(p.stages), n_(p.microbatches), links_(p.links) {
  const auto stages = static_cast<std::size_t>(stages_);
  const std::int64_t count = in_flight_limit > 0 ? std::min(in_flight_limit, n_) : std::int64_t{n_};
  for (const Link& link : links_) {
    if (link.mode == LinkMode::direct || link.forward_occupancy_ns > 0 ||
        link.backward_occupancy_ns > 0) {
      plain_links_ = false;
    }
  }
  for (std::size_t i = 0; i < stages; ++i) {
    times_.push_back({p.forward_ns[i], p.backward_input_ns[i], p.backward_weight_ns[i]});
    const std::int64_t before = p.activation_bytes[i];
    const std::int64_t after = p.activation_bytes_after_b[i];
    const bool limited = p.memory_limit_bytes[i] != unlimited_bytes;
    const std::int64_t room = limited ? p.memory_limit_bytes[i] - p.workspace_bytes[i] : 0;
    std::int64_t cap = count;
    if (limited) {
      cap = std::min({cap, fits(room, before, count),
                      fits(room - std::max(before, after), before, count) + 1});
    }
    cap_.push_back(static_cast<int>(std::max<std::int64_t>(1, cap)));
    std::vector<std::int32_t> at_f, at_b;
    for (std::int64_t u = 0; u <= cap_.back(); ++u) {
      std::int64_t f = count - u - 1;
      std::int64_t b = n_;
      if (limited) {
        f = std::min(f, fits(room - (u + 1) * before, after, n_));
        b = std::min(b, fits(room - (u - 1) * before - std::max(before, after), after, n_));
      }
      at_f.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(0, f)));
      at_b.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(0, b)));
    }
    most_pending_f_.push_back(std::move(at_f));
    most_pending_b_.push_back(std::move(at_b));
  }
  const std::size_t cells = stages * static_cast<std::size_t>(n_);
  for (Tables* t : {&base_, &trial_}) {
    for (auto* list : {&t->arrive_f, &t->free, &t->wire_f, &t->wire_b}) {
      list->assign(cells, 0);
    }
    t->pending.assign(cells, 0);
    t->weights.before_f.assign(cells, 0);
    t->weights.before_b.assign(cells, 0);
  }
  now_.resize(stages);
}

void Decoder::repair(Candidate& c) const {
  const std::size_t cells = static_cast<std::size_t>(stages_) * static_cast<std::size_t>(n_);
  c.lead.resize(cells, 0);
  c.extra_f.resize(cells, 0);
  c.extra_b.resize(cells, 0);
  for (int i = 0; i < stages_; ++i) {
    int before = 0;
    for (int k = 0; k < n_; ++k) {
      std::int32_t& lead = c.lead[index(i, k)];
      const int above = i == 0 ? n_ : c.lead[index(i - 1, k)];
      const int high = std::min({n_, k + cap_[static_cast<std::size_t>(i)], above});
      // `before` never passes `high`: both grow with k, and high >= k + 1.
      lead = std::clamp(lead, std::min(high, std::max(before, k + 1)), high);
      before = lead;
    }
    c.lead[index(i, n_ - 1)] = n_;
  }
}

Candidate Decoder::from_order(const Order& order) {
  Candidate c;
  const std::size_t cells = static_cast<std::size_t>(stages_) * static_cast<std::size_t>(n_);
  c.lead.assign(cells, 0);
  for (int i = 0; i < stages_; ++i) {
    int forwards = 0;
    for (const Op op : order.stages[static_cast<std::size_t>(i)]) {
      if (op.kind == OpKind::forward) ++forwards;
      if (op.kind == OpKind::backward_input) c.lead[index(i, op.microbatch)] = forwards;
    }
  }
  repair(c);
  // Ask for W where the order runs them earlier than the rule would.
  const Order by_rule = to_order(c);
  for (int i = 0; i < stages_; ++i) {
    const auto& wanted = order.stages[static_cast<std::size_t>(i)];
    const auto& made = by_rule.stages[static_cast<std::size_t>(i)];
    std::vector<int> w_before_f(static_cast<std::size_t>(n_), 0);
    std::vector<int> w_before_b(static_cast<std::size_t>(n_), 0);
    int w = 0;
    for (const Op op : made) {
      const auto k = static_cast<std::size_t>(op.microbatch);
      if (op.kind == OpKind::backward_weight) ++w;
      if (op.kind == OpKind::forward) w_before_f[k] = w;
      if (op.kind == OpKind::backward_input) w_before_b[k] = w;
    }
    w = 0;
    int asked = 0;
    for (const Op op : wanted) {
      if (op.kind == OpKind::backward_weight) {
        ++w;
        continue;
      }
      const bool forward = op.kind == OpKind::forward;
      const auto k = static_cast<std::size_t>(op.microbatch);
      const int missing = w - asked - (forward ? w_before_f : w_before_b)[k];
      if (missing <= 0) continue;
      (forward ? c.extra_f : c.extra_b)[index(i, op.microbatch)] =
          static_cast<std::uint8_t>(std::min(missing, 255));
      asked += missing;
    }
  }
  return c;
}

Order Decoder::to_order(const Candidate& candidate) {
  Order order;
  order.stages.resize(static_cast<std::size_t>(stages_));
  for (auto& row : order.stages) row.reserve(3 * static_cast<std::size_t>(n_));
  pass(candidate, trial_, 0, never_give_up, &order);
  for (auto& row : order.stages) {
    int w = 0;
    for (Op& op : row) {
      if (op.kind == OpKind::backward_weight) op.microbatch = w++;
    }
    while (w < n_) row.push_back({OpKind::backward_weight, w++});
  }
  return order;
}

Value Decoder::evaluate(const Candidate& candidate) {
  return pass(candidate, base_, 0, never_give_up, nullptr);
}

Value Decoder::try_from(const Candidate& candidate, int round, double give_up) {
  if (round > 0) {
    // Messages that were sent before this round and are used in it or later.
    for (int i = 1; i < stages_; ++i) {
      const auto begin = static_cast<std::size_t>(candidate.lead[index(i, round - 1)]);
      const auto end = static_cast<std::size_t>(candidate.lead[index(i - 1, round - 1)]);
      const std::size_t row = index(i, 0);
      std::copy(base_.arrive_f.begin() + static_cast<std::ptrdiff_t>(row + begin),
                base_.arrive_f.begin() + static_cast<std::ptrdiff_t>(row + end),
                trial_.arrive_f.begin() + static_cast<std::ptrdiff_t>(row + begin));
    }
    const auto stages = static_cast<std::size_t>(stages_);
    const std::size_t at = static_cast<std::size_t>(round) * stages;
    for (std::size_t i = 0; i < stages; ++i) {
      now_[i] = {base_.free[at + i], base_.wire_f[at + i], base_.wire_b[at + i],
                 base_.pending[at + i]};
    }
  }
  return pass(candidate, trial_, round, give_up, nullptr);
}

void Decoder::commit(const Candidate& candidate, int round) {
  const auto copy = [](const auto& from, auto& to, std::size_t begin, std::size_t end) {
    std::copy(from.begin() + static_cast<std::ptrdiff_t>(begin),
              from.begin() + static_cast<std::ptrdiff_t>(end),
              to.begin() + static_cast<std::ptrdiff_t>(begin));
  };
  const auto stages = static_cast<std::size_t>(stages_);
  const std::size_t cells = stages * static_cast<std::size_t>(n_);
  const std::size_t at = static_cast<std::size_t>(round) * stages;
  copy(trial_.free, base_.free, at, cells);
  copy(trial_.wire_f, base_.wire_f, at, cells);
  copy(trial_.wire_b, base_.wire_b, at, cells);
  copy(trial_.pending, base_.pending, at, cells);
  for (int i = 0; i < stages_; ++i) {
    const int first_f = round == 0 ? 0 : candidate.lead[index(i, round - 1)];
    const std::size_t end = index(i, n_ - 1) + 1;
    copy(trial_.weights.before_f, base_.weights.before_f, index(i, first_f), end);
    copy(trial_.weights.before_b, base_.weights.before_b, index(i, round), end);
    if (i == 0) continue;
    const int begin = round == 0 ? 0 : candidate.lead[index(i - 1, round - 1)];
    copy(trial_.arrive_f, base_.arrive_f, index(i, begin), index(i, n_ - 1) + 1);
  }
}

const Decoder::WeightCounts& Decoder::weights_of_trial(const Candidate& candidate, int round) {
  for (int i = 0; i < stages_ && round > 0; ++i) {
    const auto row = static_cast<std::ptrdiff_t>(index(i, 0));
    const std::ptrdiff_t forwards = candidate.lead[index(i, round - 1)];
    std::copy_n(base_.weights.before_f.begin() + row, forwards,
                trial_.weights.before_f.begin() + row);
    std::copy_n(base_.weights.before_b.begin() + row, round, trial_.weights.before_b.begin() + row);
  }
  return trial_.weights;
}

std::int64_t Decoder::replay(const Candidate& candidate, const WeightCounts& weights,
                             std::int64_t give_up_ns) {
  std::fill(now_.begin(), now_.end(), StageNow{});
  std::vector<std::int64_t>& arrive_f = trial_.arrive_f;
  for (int k = 0; k < n_; ++k) {
    for (int i = 0; i < stages_; ++i) {
      StageNow& s = now_[static_cast<std::size_t>(i)];
      const StageTimes times = times_[static_cast<std::size_t>(i)];
      const int begin = k == 0 ? 0 : candidate.lead[index(i, k - 1)];
      for (int j = begin; j < candidate.lead[index(i, k)]; ++j) {
        const std::size_t cell = index(i, j);
        const std::int64_t arrival = i == 0 ? 0 : arrive_f[cell];
        const std::int64_t done =
            std::max(s.free + weights.before_f[cell] * times.w, arrival) + times.f;
        s.pending -= weights.before_f[cell];
        s.free = done;
        if (i + 1 == stages_) continue;
        const Link& link = links_[static_cast<std::size_t>(i)];
        s.wire_f = std::max(s.wire_f, done) + link.forward_occupancy_ns;
        const std::int64_t there = s.wire_f + link.forward_delay_ns;
        arrive_f[index(i + 1, j)] = there;
        if (link.mode == LinkMode::direct) {
          s.free = link.forward_hold_ns < 0 ? there : done + link.forward_hold_ns;
        }
      }
    }
    std::int64_t arrival = 0;
    for (int i = stages_ - 1; i >= 0; --i) {
      StageNow& s = now_[static_cast<std::size_t>(i)];
      const StageTimes times = times_[static_cast<std::size_t>(i)];
      const std::size_t cell = index(i, k);
      const std::int64_t done =
          std::max(s.free + weights.before_b[cell] * times.w, arrival) + times.b;
      s.pending += 1 - weights.before_b[cell];
      s.free = done;
      if (done > give_up_ns) return no_limit;
      if (i == 0) continue;
      const Link& link = links_[static_cast<std::size_t>(i) - 1];
      s.wire_b = std::max(s.wire_b, done) + link.backward_occupancy_ns;
      arrival = s.wire_b + link.backward_delay_ns;
      if (link.mode == LinkMode::direct) {
        s.free = link.backward_hold_ns < 0 ? arrival : done + link.backward_hold_ns;
      }
    }
  }
  std::int64_t makespan = 0;
  for (int i = 0; i < stages_; ++i) {
    const StageNow& s = now_[static_cast<std::size_t>(i)];
    makespan = std::max(makespan, s.free + s.pending * times_[static_cast<std::size_t>(i)].w);
  }
  return makespan;
}

Value Decoder::pass(const Candidate& candidate, Tables& tables, int round, double give_up,
                    Order* order) {
  return plain_links_ ? run<true>(candidate, tables, round, give_up, order)
                      : run<false>(candidate, tables, round, give_up, order);
}

// Hot: the whole search is this function. Kept in one piece so that a stage's state stays in
// registers.
template <bool plain_links>
Value Decoder::run(const Candidate& candidate, Tables& tables, int round, double give_up,
                   Order* order) {
  const int stages = stages_;
  const auto n = static_cast<std::size_t>(n_);
  StageNow* now = now_.data();
  if (round == 0) std::fill(now_.begin(), now_.end(), StageNow{});
  const std::int32_t* lead = candidate.lead.data();
  const std::uint8_t* extra_f = candidate.extra_f.data();
  const std::uint8_t* extra_b = candidate.extra_b.data();
  std::int64_t* arrive_f = tables.arrive_f.data();
  const std::int64_t limit =
      give_up >= never_give_up ? no_limit : static_cast<std::int64_t>(give_up);

  // Runs W until the op may start; returns its start.
  const auto settle = [&](StageNow& s, std::int64_t w, std::int64_t arrival, std::int32_t most,
                          std::int32_t asked, int stage) {
    std::int64_t t = s.free;
    const std::int32_t had = s.pending;
    std::int32_t pending = had;
    while (pending > 0 && t + w <= arrival) {
      t += w;
      --pending;
    }
    const std::int32_t more = std::max(pending - most, std::min(asked, pending));
    if (more > 0) {
      t += more * w;
      pending -= more;
    }
    if (order != nullptr) {
      for (std::int32_t j = pending; j < had; ++j) {
        order->stages[static_cast<std::size_t>(stage)].push_back({OpKind::backward_weight, 0});
      }
    }
    s.pending = pending;
    return std::max(t, arrival);
  };

  for (int k = round; k < n_; ++k) {
    const std::size_t at = static_cast<std::size_t>(k) * static_cast<std::size_t>(stages);
    for (int i = 0; i < stages; ++i) {
      const auto stage = static_cast<std::size_t>(i);
      StageNow& s = now[i];
      tables.free[at + stage] = s.free;
      tables.pending[at + stage] = s.pending;
      if constexpr (!plain_links) {
        tables.wire_f[at + stage] = s.wire_f;
        tables.wire_b[at + stage] = s.wire_b;
      }
      const StageTimes times = times_[stage];
      const std::size_t row = stage * n;
      const int begin = k == 0 ? 0 : lead[row + static_cast<std::size_t>(k) - 1];
      const int end = lead[row + static_cast<std::size_t>(k)];
      const std::int32_t* most = most_pending_f_[stage].data();
      std::int32_t* weights_f = tables.weights.before_f.data();
      for (int j = begin; j < end; ++j) {
        const std::size_t cell = row + static_cast<std::size_t>(j);
        const std::int64_t arrival = i == 0 ? 0 : arrive_f[cell];
        const std::int32_t had = s.pending;
        const std::int64_t done =
            settle(s, times.w, arrival, most[j - k], extra_f[cell], i) + times.f;
        weights_f[cell] = had - s.pending;
        if (order != nullptr) order->stages[stage].push_back({OpKind::forward, j});
        s.free = done;
        if (i + 1 == stages) continue;
        const Link& link = links_[stage];
        if constexpr (plain_links) {
          arrive_f[cell + n] = done + link.forward_delay_ns;
        } else {
          s.wire_f = std::max(s.wire_f, done) + link.forward_occupancy_ns;
          arrive_f[cell + n] = s.wire_f + link.forward_delay_ns;
          if (link.mode == LinkMode::direct) {
            s.free = link.forward_hold_ns < 0 ? arrive_f[cell + n] : done + link.forward_hold_ns;
          }
        }
      }
    }
    std::int64_t arrival = 0;
    for (int i = stages - 1; i >= 0; --i) {
      const auto stage = static_cast<std::size_t>(i);
      StageNow& s = now[i];
      const StageTimes times = times_[stage];
      const std::size_t cell = stage * n + static_cast<std::size_t>(k);
      const std::int32_t* most = most_pending_b_[stage].data();
      const std::int32_t had = s.pending;
      const std::int64_t done =
          settle(s, times.w, arrival, most[lead[cell] - k], extra_b[cell], i) + times.b;
      tables.weights.before_b[cell] = had - s.pending;
      if (order != nullptr) order->stages[stage].push_back({OpKind::backward_input, k});
      s.free = done;
      ++s.pending;
      // What is left to do on this stage alone.
      if (limit != no_limit) {
        const std::int64_t left = n_ - 1 - k;
        if (s.free + (n_ - lead[cell]) * times.f + left * times.b + (left + s.pending) * times.w >
            limit) {
          return {no_limit, 2 * never_give_up};
        }
      }
      if (i == 0) continue;
      const Link& link = links_[stage - 1];
      if constexpr (plain_links) {
        arrival = done + link.backward_delay_ns;
      } else {
        s.wire_b = std::max(s.wire_b, done) + link.backward_occupancy_ns;
        arrival = s.wire_b + link.backward_delay_ns;
        if (link.mode == LinkMode::direct) {
          s.free = link.backward_hold_ns < 0 ? arrival : done + link.backward_hold_ns;
        }
      }
    }
  }
  Value value;
  std::int64_t sum = 0;
  for (int i = 0; i < stages; ++i) {
    const std::int64_t end = now[i].free + now[i].pending * times_[static_cast<std::size_t>(i)].w;
    value.makespan_ns = std::max(value.makespan_ns, end);
    sum += end;
  }
  value.cost = static_cast<double>(value.makespan_ns) + static_cast<double>(sum / stages) / 32.0;
  return value;
}

}  // namespace adaptra::plan
