#include "plan/search.hpp"

#include "plan/decode.hpp"
#include "plan/simulate.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>

namespace adaptra::plan {
namespace {

using Clock = std::chrono::steady_clock;

// splitmix64: the same sequence everywhere, unlike the standard library's distributions.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  int below(int n) {
    return static_cast<int>(((next() >> 32) * static_cast<std::uint64_t>(n)) >> 32);
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t state_;
};

struct Change {
  enum class Where : std::uint8_t { lead, extra_f, extra_b } where;
  std::size_t cell;
  std::int32_t before;
};

// How often a move is about W instead of leads, and how far moves about leads reach over
// microbatches and stages (geometric). Chosen on generated profiles; the result changes little
// around them.
constexpr double share_of_w_moves = 0.3;
constexpr double longer_over_microbatches = 0.6;
constexpr double longer_over_stages = 0.4;

// One annealing after the other. Share of the budget, temperature at its begin and end in mean op
// times, and where it starts: the n-th best construction, or (-1) the best found so far.
struct Round {
  double share;
  double hot;
  double cold;
  int start;
};
constexpr Round rounds[] = {{0.15, 0.03, 0.002, 0},
                            {0.15, 0.05, 0.002, 1},
                            {0.15, 0.05, 0.002, 2},
                            {0.25, 0.05, 0.002, -1},
                            {0.30, 0.03, 0.001, -1}};

class Annealer {
 public:
  /// `guard` (or null) must find every candidate at most `guard_ns` long.
  Annealer(Decoder& decoder, Decoder* guard, std::int64_t guard_ns, std::uint64_t seed)
      : d_(decoder),
        guard_(guard),
        guard_ns_(guard_ns),
        random_(seed),
        stages_(decoder.stages()),
        n_(decoder.microbatches()) {}

  void start(Candidate candidate) {
    now_ = std::move(candidate);
    value_ = d_.evaluate(now_);
  }
  const Candidate& candidate() const { return now_; }
  const Value& value() const { return value_; }

  /// One move at this temperature; true if a new candidate was taken.
  bool step(double temperature) {
    changes_.clear();
    const int round = propose();
    if (round >= n_) return false;
    const double give_up = value_.cost - temperature * std::log(random_.unit() + 1e-300);
    const Value next = d_.try_from(now_, round, give_up);
    if (next.cost <= give_up && guarded(round)) {
      d_.commit(now_, round);
      value_ = next;
      return true;
    }
    undo();
    return false;
  }

 private:
  std::size_t cell(int i, int k) const {
    return static_cast<std::size_t>(i) * static_cast<std::size_t>(n_) + static_cast<std::size_t>(k);
  }
  std::int32_t& lead(int i, int k) { return now_.lead[cell(i, k)]; }

  bool guarded(int round) {
    return guard_ == nullptr ||
           guard_->replay(now_, d_.weights_of_trial(now_, round), guard_ns_) <= guard_ns_;
  }

  void undo() {
    for (std::size_t j = changes_.size(); j-- > 0;) {
      const Change& c = changes_[j];
      switch (c.where) {
        case Change::Where::lead:
          now_.lead[c.cell] = c.before;
          break;
        case Change::Where::extra_f:
          now_.extra_f[c.cell] = static_cast<std::uint8_t>(c.before);
          break;
        case Change::Where::extra_b:
          now_.extra_b[c.cell] = static_cast<std::uint8_t>(c.before);
          break;
      }
    }
  }

  int length(double p) {
    int l = 1;
    while (random_.unit() < p) ++l;
    return l;
  }

  // Changes now_; the first round that differs, or N if nothing changed.
  int propose() {
    if (random_.unit() < share_of_w_moves) return propose_extra();
    const int i1 = random_.below(stages_);
    const int i2 = std::min(stages_ - 1, i1 + length(longer_over_stages) - 1);
    const int k1 = random_.below(n_);
    const int k2 = std::min(n_ - 1, k1 + length(longer_over_microbatches) - 1);
    return (random_.next() >> 63) != 0 ? raise(i1, i2, k1, k2) : lower(i1, i2, k1, k2);
  }

  int raise(int i1, int i2, int k1, int k2) {
    int round = n_;
    for (int i = i1; i <= i2; ++i) {
      for (int k = k2; k >= k1; --k) {
        int high = std::min(n_, k + d_.most_waiting(i));
        if (k + 1 < n_) high = std::min(high, lead(i, k + 1));
        if (i > 0) high = std::min(high, lead(i - 1, k));
        round = std::min(round, set_lead(i, k, std::min(lead(i, k) + 1, high)));
      }
    }
    return round;
  }

  int lower(int i1, int i2, int k1, int k2) {
    int round = n_;
    for (int i = i2; i >= i1; --i) {
      for (int k = k1; k <= k2; ++k) {
        if (k == n_ - 1) continue;
        int low = k + 1;
        if (k > 0) low = std::max(low, lead(i, k - 1));
        if (i + 1 < stages_) low = std::max(low, lead(i + 1, k));
        round = std::min(round, set_lead(i, k, std::max(lead(i, k) - 1, low)));
      }
    }
    return round;
  }

  int set_lead(int i, int k, int value) {
    std::int32_t& at = lead(i, k);
    if (at == value) return n_;
    changes_.push_back({Change::Where::lead, cell(i, k), at});
    at = value;
    return k;
  }

  int propose_extra() {
    const int i = random_.below(stages_);
    const int k = random_.below(n_);
    const bool forward = (random_.next() >> 63) != 0;
    std::uint8_t& at = (forward ? now_.extra_f : now_.extra_b)[cell(i, k)];
    const std::uint8_t value =
        at == 0 ? 1 : ((random_.next() & 7) == 0 ? static_cast<std::uint8_t>(at + 1) : 0);
    if (at == value || value > 200) return n_;
    changes_.push_back({forward ? Change::Where::extra_f : Change::Where::extra_b, cell(i, k), at});
    at = value;
    if (!forward) return k;
    const auto row = now_.lead.begin() + static_cast<std::ptrdiff_t>(cell(i, 0));
    return static_cast<int>(std::upper_bound(row, row + n_, k) - row);
  }

  Decoder& d_;
  Decoder* guard_;
  std::int64_t guard_ns_;
  Random random_;
  int stages_;
  int n_;
  Candidate now_;
  Value value_;
  std::vector<Change> changes_;
};

class Budget {
 public:
  explicit Budget(const SearchOptions& o) : o_(o), begin_(Clock::now()) {}
  /// Share of the budget that is spent.
  double spent(std::uint64_t evaluations) const {
    if (o_.stop.stop_requested()) return 1.0;
    if (o_.budget_evals > 0) {
      return static_cast<double>(evaluations) / static_cast<double>(o_.budget_evals);
    }
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin_).count();
    return ms / std::max(1e-6, o_.budget_ms);
  }

 private:
  const SearchOptions& o_;
  Clock::time_point begin_;
};

double mean_op_ns(const Profile& profile) {
  double sum = 0.0;
  for (int i = 0; i < profile.stages; ++i) {
    const auto at = static_cast<std::size_t>(i);
    sum += static_cast<double>(profile.forward_ns[at]) +
           static_cast<double>(profile.backward_input_ns[at]) +
           static_cast<double>(profile.backward_weight_ns[at]);
  }
  return std::max(1.0, sum / (3.0 * profile.stages));
}

// No start keeps to the guard in the decoder's form: the first one as it is.
SearchResult keep(const Profile& profile, const Order& order) {
  SearchResult result;
  result.order = order;
  const Result<Schedule> schedule = simulate(profile, order);
  if (schedule) result.makespan_ns = schedule.value().makespan_ns;
  return result;
}

}  // namespace

SearchResult search(const Profile& profile, const std::vector<Order>& starts,
                    const SearchOptions& options) {
  const Budget budget(options);
  Decoder decoder(profile, options.in_flight_limit);
  std::unique_ptr<Decoder> guard;
  if (options.guard != nullptr) {
    guard = std::make_unique<Decoder>(*options.guard, options.in_flight_limit);
  }
  SearchResult result;
  std::vector<Candidate> pool;
  std::vector<std::pair<double, std::size_t>> ranks;
  for (const Order& order : starts) {
    Candidate candidate = decoder.from_order(order);
    const Value value = decoder.try_from(candidate, 0, 1e19);
    ++result.evaluations;
    if (guard != nullptr && guard->replay(candidate, decoder.weights_of_trial(candidate, 0),
                                          options.guard_ns) > options.guard_ns) {
      continue;
    }
    ranks.emplace_back(value.cost, pool.size());
    pool.push_back(std::move(candidate));
  }
  std::sort(ranks.begin(), ranks.end());
  if (pool.empty()) return keep(profile, starts[0]);

  Annealer annealer(decoder, guard.get(), options.guard_ns, options.seed);
  Candidate best = pool[ranks[0].second];
  annealer.start(best);
  Value best_value = annealer.value();
  const double unit = mean_op_ns(profile);
  double begin = 0.0;
  bool enough = false;
  for (const Round& round : rounds) {
    const double end = begin + round.share;
    if (&round != rounds) {
      const auto nth = static_cast<std::size_t>(std::max(0, round.start));
      annealer.start(round.start < 0 || nth >= ranks.size() ? best : pool[ranks[nth].second]);
    }
    double temperature = 0;
    for (std::uint64_t iteration = 0; !enough; ++iteration) {
      if (iteration % 32 == 0) {
        const double spent = budget.spent(result.evaluations);
        enough = spent >= 1.0 || best_value.makespan_ns <= options.good_enough_ns;
        if (enough || spent >= end) break;
        const double part = std::max(0.0, (spent - begin) / round.share);
        temperature = unit * round.hot * std::pow(round.cold / round.hot, part);
      }
      ++result.evaluations;
      if (annealer.step(temperature) && annealer.value().cost < best_value.cost) {
        best = annealer.candidate();
        best_value = annealer.value();
      }
    }
    begin = end;
  }
  result.order = decoder.to_order(best);
  result.makespan_ns = best_value.makespan_ns;
  // A start that loses in the decoder's form (its W need not be where the rule would put them)
  // still counts as it is.
  for (const Order& order : starts) {
    if (guard != nullptr) break;
    const Result<Schedule> schedule = simulate(profile, order);
    if (schedule && schedule.value().makespan_ns < result.makespan_ns) {
      result.order = order;
      result.makespan_ns = schedule.value().makespan_ns;
    }
  }
  return result;
}

}  // namespace adaptra::plan
