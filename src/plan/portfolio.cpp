#include "plan/portfolio.hpp"

#include "plan/bound.hpp"
#include "plan/check.hpp"
#include "plan/generate.hpp"
#include "plan/search.hpp"
#include "plan/simulate.hpp"
#include "plan/slack.hpp"

#include <algorithm>
#include <chrono>

namespace adaptra::plan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double p95_may_cost_at_the_mean = 0.01;

class Portfolio {
 public:
  Portfolio(const Profile& profile, const PlanOptions& options)
      : p_(profile), o_(options), begin_(Clock::now()) {}

  Result<Order> run() {
    const Status built = construct();
    if (!built) return built.error();
    const bool robust = has_p95(p_);
    const std::int64_t bound = lower_bound(p_, o_.in_flight_limit).makespan_ns;
    const bool spare = !robust && spare_is_affordable();
    SearchOptions main = share(robust ? 0.6 : (spare ? 0.85 : 1.0));
    main.good_enough_ns = bound;
    const SearchResult best = search(p_, starts_, main);
    if (robust) return at_p95_of(best);
    if (spare) return with_most_spare(best);
    return best.order;
  }

 private:
  double elapsed_ms() const {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin_).count();
  }

  // Constructions. The first ones always, the others while they take a small part of the budget.
  Status construct() {
    for (const Order& order : o_.starts) {
      CheckOptions rules;
      rules.in_flight_limit = o_.in_flight_limit;
      if (check(p_, order, rules).ok()) starts_.push_back(order);
    }
    for (const Policy policy :
         {Policy::greedy, Policy::slackness, Policy::one_f_one_b, Policy::zb_h1, Policy::zb_h2}) {
      if (o_.budget_evals == 0 && !starts_.empty() && elapsed_ms() > 0.3 * o_.budget_ms) break;
      Result<Generated> made = generate(p_, policy, o_.in_flight_limit);
      if (made) {
        starts_.push_back(std::move(made.value().order));
      } else if (policy == Policy::greedy) {
        return made.error();
      }
    }
    return {};
  }

  SearchOptions share(double part) const {
    SearchOptions s;
    s.in_flight_limit = o_.in_flight_limit;
    s.seed = o_.seed;
    s.stop = o_.stop;
    s.budget_ms = std::max(0.0, o_.budget_ms - elapsed_ms()) * part;
    s.budget_evals = static_cast<std::uint64_t>(static_cast<double>(o_.budget_evals) * part);
    if (o_.budget_evals > 0) s.budget_evals = std::max<std::uint64_t>(1, s.budget_evals);
    return s;
  }

  Order at_p95_of(const SearchResult& best) {
    const Profile slow = at_p95(p_);
    SearchOptions s = share(1.0);
    if (o_.budget_evals > 0) s.budget_evals = std::max<std::uint64_t>(1, o_.budget_evals * 2 / 5);
    s.guard = &p_;
    s.guard_ns =
        best.makespan_ns +
        static_cast<std::int64_t>(static_cast<double>(best.makespan_ns) * p95_may_cost_at_the_mean);
    s.good_enough_ns = lower_bound(slow, o_.in_flight_limit).makespan_ns;
    std::vector<Order> starts = starts_;
    starts.insert(starts.begin(), best.order);
    const SearchResult robust = search(slow, starts, s);
    // The search sees orders in its own form: what counts is the simulation of what it returns.
    const Result<Schedule> before = simulate(slow, best.order);
    const bool better = before && robust.makespan_ns < before.value().makespan_ns;
    return better && within(robust.order, s.guard_ns) ? robust.order : best.order;
  }

  Order with_most_spare(const SearchResult& best) {
    const std::int64_t limit =
        best.makespan_ns +
        static_cast<std::int64_t>(static_cast<double>(best.makespan_ns) * o_.spare_tolerance);
    Order chosen = best.order;
    std::int64_t most = least_absorbed_ns(p_, chosen).value();
    std::int64_t unit = 1;
    for (std::size_t i = 0; i < p_.forward_ns.size(); ++i) {
      unit = std::max(unit, p_.forward_ns[i] + p_.backward_input_ns[i]);
    }
    const auto consider = [&](const Order& order) {
      if (!within(order, limit)) return;
      const std::int64_t absorbed = least_absorbed_ns(p_, order).value();
      if (absorbed <= most) return;
      most = absorbed;
      chosen = order;
    };
    // Orders generated as if every link were slower: more warm-up, so more slackness.
    GenerateRule rule;
    if (o_.in_flight_limit > 0) {
      rule.in_flight_limit.assign(p_.forward_ns.size(), o_.in_flight_limit);
    }
    for (const std::int64_t delay : {unit / 8, unit / 4, unit / 2, unit}) {
      const Result<Order> order = generate_by_simulation(with_more_delay(p_, delay), rule);
      if (order) consider(order.value());
    }
    // Orders that are good although every link is slower by so much.
    int left = 3;
    for (const std::int64_t delay : {unit / 4, unit, 3 * unit}) {
      const Profile slower = with_more_delay(p_, delay);
      SearchOptions s = share(1.0 / left);
      if (o_.budget_evals > 0) s.budget_evals = std::max<std::uint64_t>(1, o_.budget_evals / 20);
      --left;
      s.guard = &p_;
      s.guard_ns = limit;
      s.good_enough_ns = lower_bound(slower, o_.in_flight_limit).makespan_ns;
      std::vector<Order> starts = starts_;
      starts.insert(starts.begin(), chosen);
      const SearchResult found = search(slower, starts, s);
      consider(found.order);
    }
    return chosen;
  }

  bool within(const Order& order, std::int64_t limit) const {
    const Result<Schedule> schedule = simulate(p_, order);
    return schedule && schedule.value().makespan_ns <= limit;
  }

  // Eight measurements of absorbed delay, a dozen simulations per link each, must be a small part.
  bool spare_is_affordable() const {
    if (p_.stages < 2) return false;
    const double simulations = 8.0 * 14.0 * (p_.stages - 1);
    if (o_.budget_evals > 0) return simulations * 4.0 < 0.2 * static_cast<double>(o_.budget_evals);
    const double ops = 3.0 * p_.stages * static_cast<double>(p_.microbatches);
    constexpr double ms_per_op = 30e-6;
    return simulations * ops * ms_per_op < 0.1 * o_.budget_ms;
  }

  const Profile& p_;
  const PlanOptions& o_;
  Clock::time_point begin_;
  std::vector<Order> starts_;
};

}  // namespace

Result<Order> best_order(const Profile& profile, const PlanOptions& options) {
  const Status fits = require_one_microbatch(profile);
  if (!fits) return fits.error();
  return Portfolio(profile, options).run();
}

}  // namespace adaptra::plan
