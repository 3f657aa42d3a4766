#include "plan/theory.hpp"

#include "plan/generate.hpp"
#include "plan/simulate.hpp"
#include "plan/slack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <random>

namespace adaptra::plan {
namespace {

constexpr double spreads[] = {0.0, 0.1, 0.3};

// Shortest time from the end of B(i+1, k) to the start of F(i+1, k + x_i): what the gradient, B and
// F of stage i and the activation have, before stage i + 1 would wait.
double shortest_window(const Schedule& s, const Order& order, std::size_t link, int x) {
  const std::size_t below = link + 1;
  const auto& row = order.stages[below];
  std::vector<std::int64_t> f_start, b_end;
  for (std::size_t j = 0; j < row.size(); ++j) {
    if (row[j].kind == OpKind::forward) f_start.push_back(s.ops[below][j].start_ns);
    if (row[j].kind == OpKind::backward_input) b_end.push_back(s.ops[below][j].end_ns);
  }
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t k = 0; k + static_cast<std::size_t>(x) < f_start.size(); ++k) {
    shortest = std::min(shortest, f_start[k + static_cast<std::size_t>(x)] - b_end[k]);
  }
  return static_cast<double>(shortest);
}

std::int64_t makespan(const Profile& p, const Order& order) {
  return simulate(p, order).value().makespan_ns;
}

TheorySample one_sample(double spread, std::mt19937_64& random) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  constexpr std::int64_t t = 10'000'000;
  const auto width = static_cast<std::int64_t>(spread * static_cast<double>(t));
  TheorySample out;
  out.spread = spread;
  out.stages = static_cast<int>(pick(2, 8));
  out.microbatches = out.stages * static_cast<int>(pick(3, 6));
  Profile p = uniform_profile(out.stages, out.microbatches, t, t, t);
  for (std::size_t i = 0; i < p.forward_ns.size(); ++i) {
    p.forward_ns[i] += pick(-width, width);
    p.backward_input_ns[i] += pick(-width, width);
    p.backward_weight_ns[i] += pick(-width, width);
  }
  out.link = static_cast<int>(pick(0, out.stages - 2));
  const auto i = static_cast<std::size_t>(out.link);
  const Profile scheduling = with_more_delay(p, out.link, pick(0, 2 * t));
  const Order order = generate_by_simulation(scheduling, {}).value();
  const std::vector<int> x = warmup(order);
  out.slackness = x[i] - x[i + 1];
  const std::vector<std::int64_t> predicted = slackness_warmup(scheduling);
  out.warmup_as_predicted = std::min<std::int64_t>(predicted[i], out.microbatches) == x[i];

  const Schedule free = simulate(p, order).value();
  const double own = static_cast<double>(p.forward_ns[i] + p.backward_input_ns[i]);
  const double next = static_cast<double>(p.forward_ns[i + 1] + p.backward_input_ns[i + 1]);
  out.has_window = x[i] < out.microbatches;
  out.window_ns = shortest_window(free, order, i, x[i]);
  out.window_rule_ns = out.slackness * next;
  out.eq1_ns = std::max(0.0, (out.window_rule_ns - own) / 2);
  out.from_window_ns = std::max(0.0, (out.window_ns - own) / 2);
  double mean = 0.0;
  for (std::size_t s = 0; s < p.forward_ns.size(); ++s) {
    mean += static_cast<double>(p.forward_ns[s] + p.backward_input_ns[s]) / (2.0 * out.stages);
  }
  out.knee_ns = (out.slackness - 1) * mean;
  const std::int64_t absorbed = absorbed_ns(p, order).value()[i];
  out.absorbed_ns = static_cast<double>(absorbed);
  const std::int64_t from = absorbed + t / 2;
  const std::int64_t to = from + t;
  out.slope = static_cast<double>(makespan(with_more_delay(p, out.link, to), order) -
                                  makespan(with_more_delay(p, out.link, from), order)) /
              static_cast<double>(to - from);
  out.slope_rule = 2.0 * ((out.microbatches + out.slackness) / (out.slackness + 1));
  return out;
}

std::string share(int part, int all) {
  return fmt::format("{} / {} ({:.0f} %)", part, all, all > 0 ? 100.0 * part / all : 0.0);
}

struct Range {
  std::vector<double> values;
  void add(double v) { values.push_back(v); }
  // "median (min .. max)"
  std::string text() {
    if (values.empty()) return "none";
    std::sort(values.begin(), values.end());
    return fmt::format("{:.2f} ({:.2f} .. {:.2f})", values[values.size() / 2], values.front(),
                       values.back());
  }
};

std::string report_of(const std::vector<TheorySample>& samples, double spread) {
  int all = 0, windows = 0, lemma = 0, over = 0, under = 0, shorter = 0, window_over = 0, apart = 0,
      apart_over = 0, superlinear = 0;
  Range absorbed_to_eq1, window_to_rule, slope_to_rule, absorbed_to_window;
  for (const TheorySample& s : samples) {
    if (s.spread != spread) continue;
    ++all;
    windows += s.has_window ? 1 : 0;
    lemma += s.warmup_as_predicted ? 1 : 0;
    // The absorbed delay includes the 1 % allowance, so that "over" is a clear miss.
    over += s.absorbed_ns < s.eq1_ns ? 1 : 0;
    under += s.absorbed_ns > 1.25 * s.eq1_ns ? 1 : 0;
    shorter += s.has_window && s.window_ns < 0.95 * s.window_rule_ns ? 1 : 0;
    window_over += s.has_window && s.absorbed_ns < s.from_window_ns ? 1 : 0;
    superlinear += s.slope > 2.5 ? 1 : 0;
    if (s.eq1_ns > s.knee_ns * 1.0001) {
      ++apart;
      apart_over += s.absorbed_ns < s.eq1_ns ? 1 : 0;
    }
    if (s.eq1_ns > 0) absorbed_to_eq1.add(s.absorbed_ns / s.eq1_ns);
    if (s.has_window && s.from_window_ns > 0)
      absorbed_to_window.add(s.absorbed_ns / s.from_window_ns);
    if (s.has_window && s.window_rule_ns > 0) window_to_rule.add(s.window_ns / s.window_rule_ns);
    slope_to_rule.add(s.slope / s.slope_rule);
  }
  std::string text = fmt::format("op times +- {:.0f} %, {} samples\n", 100 * spread, all);
  const auto line = [&](const char* what, const std::string& value) {
    text += fmt::format("  {:<66} {}\n", what, value);
  };
  line("warm-up as Algorithm 2 says (F(i,x) < B(i,1) < F(i,x+1))", share(lemma, all));
  line("realised window / D_i (tF + tB), median (min .. max)", window_to_rule.text());
  line("  more than 5 % shorter", share(shorter, windows));
  line("absorbed delay / Eq. (1), median (min .. max)", absorbed_to_eq1.text());
  line("  Eq. (1) promises more than is absorbed", share(over, all));
  line("  Eq. (1) promises less than 80 % of what is absorbed", share(under, all));
  line("absorbed delay / delay from the realised window", absorbed_to_window.text());
  line("  the realised window promises more than is absorbed", share(window_over, windows));
  line("growth above the absorbed delay / 2 ceil(N / (D + 1))", slope_to_rule.text());
  line("  growth there steeper than the delay itself (> 2.5)", share(superlinear, all));
  line("Eq. (1) allows more than (D - 1) t", share(apart, all));
  line("  of these, promises more than is absorbed", share(apart_over, apart));
  return text;
}

}  // namespace

std::vector<TheorySample> theory_samples(int samples, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<TheorySample> out;
  for (const double spread : spreads) {
    for (int k = 0; k < samples; ++k) out.push_back(one_sample(spread, random));
  }
  return out;
}

std::string theory_report(const std::vector<TheorySample>& samples) {
  std::string text;
  for (const double spread : spreads) text += report_of(samples, spread) + "\n";
  return text;
}

}  // namespace adaptra::plan
