// Figures of the planner: plan_bench [--quality] [--exact PROBLEMS --cbc-seconds T]. Prints tables;
// asserts nothing. docs/planner.md holds the measured ones.

#include "plan/exact.hpp"
#include "plan/plan.hpp"
#include "plan/recorded.hpp"
#include "plan/search.hpp"
#include "plan/simulate.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <random>
#include <vector>

namespace {

using namespace adaptra::plan;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

template <typename Work>
double median_ms(int rounds, const Work& work) {
  std::vector<double> times;
  for (int k = 0; k < rounds; ++k) {
    const Clock::time_point begin = Clock::now();
    work();
    times.push_back(ms_since(begin));
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void speed(const std::vector<RecordedCase>& cases) {
  const Profile large = uniform_profile(64, 1024, 10'000'000, 11'000'000, 6'000'000);
  const Order order = generate(large, Policy::one_f_one_b).value().order;
  fmt::print("simulate S=64 N=1024: {:.1f} ms\n",
             median_ms(7, [&] { return simulate(large, order).value().makespan_ns; }));
  const auto eight = std::find_if(cases.begin(), cases.end(),
                                  [](const RecordedCase& c) { return c.profile.stages == 8; });
  PlanOptions options;
  options.in_flight_limit = 16;
  options.budget_ms = 4.0;
  double gap = 0.0;
  const std::clock_t cpu = std::clock();
  const double first =
      median_ms(7, [&] { gap = make_plan(eight->profile, Policy::adaptra, options).value().gap; });
  const double cpu_ms = 1e3 * static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC / 7;
  fmt::print(
      "plan S=8 N=24 at 2S in flight with a budget of 4 ms: {:.1f} ms (CPU {:.1f} ms), gap "
      "{:.2f} %\n",
      first, cpu_ms, 100 * gap);
  SearchOptions search_options;
  search_options.in_flight_limit = 8;
  search_options.budget_evals = 100'000;
  const Order start = generate(eight->profile, Policy::greedy, 8).value().order;
  const double t =
      median_ms(3, [&] { return search(eight->profile, {start}, search_options).makespan_ns; });
  fmt::print("search S=8 N=24: {:.2f} us per evaluation\n", t * 1e3 / 100'000);
}

void quality(const std::vector<RecordedCase>& cases) {
  fmt::print("mean ratio to the published policy without a memory limit, {} recorded cases\n",
             cases.size());
  fmt::print("{:<24} {:>8} {:>8} {:>8} {:>12}\n", "in flight at most", "greedy", "0.1 s", "2 s",
             "lower bound");
  for (const int stages : {0, 2, 1}) {
    double sums[4] = {0, 0, 0, 0};
    for (const RecordedCase& c : cases) {
      PlanOptions options;
      options.in_flight_limit = stages * c.profile.stages;
      const double unit = 1e6 * c.published_unlimited_ms * static_cast<double>(cases.size());
      const auto add = [&](int at, std::int64_t ns) { sums[at] += static_cast<double>(ns) / unit; };
      add(0, make_plan(c.profile, Policy::greedy, options).value().makespan_ns);
      options.budget_ms = 100;
      add(1, make_plan(c.profile, Policy::adaptra, options).value().makespan_ns);
      options.budget_ms = 2000;
      const Plan plan = make_plan(c.profile, Policy::adaptra, options).value();
      add(2, plan.makespan_ns);
      add(3, plan.lower_bound_ns);
    }
    fmt::print("{:<24} {:>8.4f} {:>8.4f} {:>8.4f} {:>12.4f}\n",
               stages == 0 ? "no limit" : fmt::format("{} S", stages), sums[0], sums[1], sums[2],
               sums[3]);
  }
}

// A problem as the paper draws them: op times around a base of [b, 2b), b = 10 .. 30 ms, with a
// spread of 2 ms; one delay of up to 20 ms for every link; 2S in flight.
Profile drawn(int stages, int microbatches, std::mt19937_64& random) {
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  std::normal_distribution<double> spread(0.0, 2.0);
  const double b = 10.0 + 20.0 * unit(random);
  Profile p = uniform_profile(stages, microbatches, 1, 1, 1);
  for (auto* times : {&p.forward_ns, &p.backward_input_ns, &p.backward_weight_ns}) {
    const double base = b * (1.0 + unit(random));
    for (std::int64_t& t : *times) {
      t = static_cast<std::int64_t>(1e6 * std::max(1.0, base + spread(random)));
    }
  }
  const auto delay = static_cast<std::int64_t>(20e6 * unit(random));
  for (Link& link : p.links) link.forward_delay_ns = link.backward_delay_ns = delay;
  return p;
}

void exact(int problems, double seconds, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  constexpr std::pair<int, int> sizes[] = {{3, 6}, {4, 12}, {6, 18}, {8, 32}};
  fmt::print(
      "problem,stages,microbatches,ours_ms,greedy_ms,bound_ms,cbc_incumbent_ms,cbc_bound_ms,"
      "cbc_status\n");
  int found = 0, at_or_below = 0;
  double over = 0.0, to_greedy = 0.0;
  for (int k = 0; k < problems; ++k) {
    const auto [stages, microbatches] = sizes[k % 4];
    const Profile p = drawn(stages, microbatches, random);
    PlanOptions options;
    options.in_flight_limit = 2 * stages;
    options.budget_ms = 1000;
    const Plan ours = make_plan(p, Policy::adaptra, options).value();
    const Plan greedy = make_plan(p, Policy::greedy, options).value();
    to_greedy += static_cast<double>(ours.makespan_ns) / static_cast<double>(greedy.makespan_ns);
    CbcOptions cbc_options;
    cbc_options.in_flight_limit = options.in_flight_limit;
    cbc_options.time_limit_s = seconds;
    const auto cbc = solve_with_cbc(p, cbc_options);
    fmt::print("{},{},{},{:.3f},{:.3f},{:.3f},", k, stages, microbatches,
               1e-6 * static_cast<double>(ours.makespan_ns),
               1e-6 * static_cast<double>(greedy.makespan_ns),
               1e-6 * static_cast<double>(ours.lower_bound_ns));
    if (cbc) {
      ++found;
      const double ratio =
          static_cast<double>(ours.makespan_ns) / static_cast<double>(cbc.value().makespan_ns);
      at_or_below += ratio <= 1.0 ? 1 : 0;
      over = std::max(over, ratio - 1.0);
      fmt::print("{:.3f},{:.3f},{}\n", 1e-6 * static_cast<double>(cbc.value().makespan_ns),
                 1e-6 * static_cast<double>(cbc.value().bound_ns),
                 cbc.value().optimal ? "optimal" : "time limit");
    } else {
      fmt::print(",,nothing found\n");
    }
    std::fflush(stdout);
  }
  fmt::print(
      "# CBC found an order for {} of {}; ours at or below it in {}; never above by more than "
      "{:.3f} %\n# ours / greedy, mean: {:.5f}\n",
      found, problems, at_or_below, 100 * over, to_greedy / problems);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Figures of the planner");
  bool with_quality = false;
  int problems = 0;
  double seconds = 10.0;
  std::uint64_t seed = 1;
  std::string recorded = "tests/plan/data/recorded_clusters.json";
  app.add_flag("--quality", with_quality, "the recorded cases at 0.1 s and 2 s each (about 90 s)");
  app.add_option("--exact", problems, "random problems against CBC");
  app.add_option("--cbc-seconds", seconds, "CBC's time for each");
  app.add_option("--seed", seed, "seed of the problems");
  app.add_option("--recorded", recorded, "file of recorded cases");
  CLI11_PARSE(app, argc, argv);
  const auto cases = read_recorded(recorded);
  if (!cases) {
    fmt::print(stderr, "{}\n", cases.error().what());
    return 6;
  }
  if (problems > 0) {
    exact(problems, seconds, seed);
    return 0;
  }
  speed(cases.value());
  if (with_quality) quality(cases.value());
  return 0;
}
