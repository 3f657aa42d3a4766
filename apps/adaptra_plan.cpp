// adaptra-plan make|simulate|compare|sweep|verify-theory|check|import: plans for pipelines, on a
// laptop, without MPI or a GPU; see --help.

#include "core/build_info.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "plan/check.hpp"
#include "plan/files.hpp"
#include "plan/picture.hpp"
#include "plan/plan.hpp"
#include "plan/recorded.hpp"
#include "plan/simulate.hpp"
#include "plan/slack.hpp"
#include "plan/theory.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace {

using adaptra::Error;
using adaptra::ExitCode;
using adaptra::Result;
namespace plan = adaptra::plan;

constexpr const char* footer = R"(
Examples:
  adaptra-plan compare profile.json
  adaptra-plan make profile.json --policy adaptra --in-flight-limit 8 -o plan.json --svg plan.svg
  adaptra-plan simulate slower.json --plan plan.json
  adaptra-plan sweep profile.json --link 0 --to-ms 60 --csv sweep.csv --svg sweep.svg
  adaptra-plan check profile.json plan.json
  adaptra-plan import recorded.json -o profiles
  adaptra-plan verify-theory --samples 1000 --seed 1

Times in files are integer nanoseconds; docs/planner.md describes profiles and plans.
Exit codes: 0 done, 2 usage or malformed file, 3 missing solver, 6 file that cannot be read or
written, 7 well-formed but impossible plan or profile, 70 internal error.)";

struct Arguments {
  std::string profile, plan_file, output, svg, csv;
  std::string policy = "adaptra";
  std::vector<std::string> policies = {"1f1b", "zb-h2", "greedy", "adaptra"};
  plan::PlanOptions options;
  double budget_ms = 2000.0;
  bool start_up = false, rendezvous = false;
  int link = 0, points = 13, samples = 200;
  double from_ms = 0.0, to_ms = 60.0;
  std::uint64_t seed = 1;
};

template <typename T>
T need(Result<T> result) {
  if (!result) throw Error(result.error());
  return std::move(result).value();
}

double ms(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-6;
}

std::string links_line(const plan::Profile& p) {
  std::string text;
  for (std::size_t i = 0; i < p.links.size(); ++i) {
    const plan::Link& l = p.links[i];
    text += fmt::format("{}{}-{} {}", i == 0 ? "links: " : ", ", i, i + 1, to_string(l.mode));
  }
  return text.empty() ? "links: none" : text;
}

std::string absorbs_text(const std::vector<std::int64_t>& absorbs) {
  if (absorbs.empty()) return "-";
  return fmt::format("{:.2f} ms", ms(*std::min_element(absorbs.begin(), absorbs.end())));
}

void print_bandwidth(const plan::Plan& p) {
  for (const plan::BandwidthBound& b : p.bandwidth_bound) {
    fmt::print(
        "link {}-{} is bandwidth-bound ({}): its occupancy, not the work of a stage, decides; no "
        "order is faster than {:.3f} ms\n",
        b.link, b.link + 1,
        b.direction == plan::BandwidthBound::Direction::forward ? "activations" : "gradients",
        ms(p.best_reachable_ns));
  }
}

void print_plan(const plan::Profile& profile, const plan::Plan& p) {
  fmt::print("policy {}: step {:.3f} ms, lower bound {:.3f} ms, gap {:.2f} % ({})\n", p.policy,
             ms(p.makespan_ns), ms(p.lower_bound_ns), 100 * p.gap,
             p.proven == "optimal" ? "optimal" : "bound proven");
  if (plan::has_p95(profile)) fmt::print("step at p95 delays {:.3f} ms\n", ms(p.makespan_p95_ns));
  fmt::print("{}\n", links_line(profile));
  fmt::print("{:>5} {:>8} {:>10} {:>9} {:>12} {:>12}\n", "stage", "warm-up", "in flight", "bubble",
             "peak", "absorbs");
  for (std::size_t i = 0; i < p.warmup.size(); ++i) {
    fmt::print("{:>5} {:>8} {:>10} {:>7.1f} % {:>12} {:>12}\n", i, p.warmup[i], p.in_flight_peak[i],
               100 * p.bubble[i],
               adaptra::format_bytes(static_cast<std::uint64_t>(p.peak_bytes[i])),
               i < p.absorbs_ns.size() ? fmt::format("{:.2f} ms", ms(p.absorbs_ns[i])) : "");
  }
  for (const std::string& note : p.adjustments) fmt::print("note: {}\n", note);
  print_bandwidth(p);
}

void write(const std::string& path, const std::string& text) {
  plan::write_file(path, text).throw_if_error();
  fmt::print("written: {}\n", path);
}

void write_outputs(const Arguments& a, const plan::Profile& profile, const plan::Plan& p) {
  if (!a.output.empty()) write(a.output, to_json(p));
  if (!a.svg.empty()) write(a.svg, need(plan_svg(profile, p)));
}

plan::PlanOptions options_of(const Arguments& a) {
  plan::PlanOptions options = a.options;
  options.budget_ms = a.budget_ms;
  options.seed = a.seed;
  if (a.start_up) options.spare_tolerance = plan::start_up_tolerance;
  return options;
}

void make(const Arguments& a) {
  const plan::Profile profile = need(plan::read_profile(a.profile));
  const plan::Policy policy = need(plan::parse_policy(a.policy));
  const plan::Plan p = need(make_plan(profile, policy, options_of(a)));
  print_plan(profile, p);
  fmt::print("planned in {:.1f} ms\n", ms(p.planning_ns));
  write_outputs(a, profile, p);
}

void simulate(const Arguments& a) {
  const plan::Profile profile = need(plan::read_profile(a.profile));
  const plan::Plan given = need(plan::read_plan(a.plan_file));
  plan::PlanOptions options = options_of(a);
  options.plan_version = given.plan_version;
  const plan::Plan p = need(
      plan_of_order(profile, given.order, given.policy.empty() ? "given" : given.policy, options));
  if (given.makespan_ns > 0) {
    fmt::print("step {:.3f} ms, {:+.3f} ms against the plan's own prediction of {:.3f} ms\n",
               ms(p.makespan_ns), ms(p.makespan_ns - given.makespan_ns), ms(given.makespan_ns));
  }
  print_plan(profile, p);
  write_outputs(a, profile, p);
}

void print_row(const plan::Profile& profile, const std::string& name,
               const Result<plan::Plan>& made) {
  if (!made) {
    const std::string what = made.error().what();
    // The first sentence; `make` shows the whole.
    fmt::print("{:<18} {}\n", name, what.substr(0, what.find_first_of(":\n")));
    return;
  }
  const plan::Plan& p = made.value();
  const std::vector<std::int64_t> absorbs =
      p.absorbs_ns.empty() ? need(absorbed_ns(profile, p.order)) : p.absorbs_ns;
  double bubble = 0.0;
  std::string peaks;
  for (std::size_t i = 0; i < p.bubble.size(); ++i) {
    bubble += p.bubble[i] / static_cast<double>(p.bubble.size());
    if (p.peak_bytes[i] > 0 && i < 8) {
      peaks += (peaks.empty() ? "" : " ") +
               adaptra::format_bytes(static_cast<std::uint64_t>(p.peak_bytes[i]));
    }
  }
  if (peaks.empty()) {
    for (std::size_t i = 0; i < p.in_flight_peak.size() && i < 16; ++i) {
      peaks += fmt::format("{}{}", i == 0 ? "" : " ", p.in_flight_peak[i]);
    }
  }
  fmt::print("{:<18} {:>11.3f} {:>11.3f} {:>7.1f} {:>12} {:>7.2f} {:>10.1f}  {}\n", name,
             ms(p.makespan_ns), ms(p.makespan_p95_ns), 100 * bubble, absorbs_text(absorbs),
             100 * p.gap, ms(p.planning_ns), peaks);
}

void compare(const Arguments& a) {
  const plan::Profile profile = need(plan::read_profile(a.profile));
  const plan::PlanOptions options = options_of(a);
  bool bytes = false;
  for (std::size_t i = 0; i < profile.activation_bytes.size(); ++i) {
    bytes |= profile.activation_bytes[i] + profile.activation_bytes_after_b[i] > 0;
  }
  fmt::print("{}{} stages, {} microbatches, {}\n", profile.name.empty() ? "" : profile.name + ": ",
             profile.stages, profile.microbatches, links_line(profile));
  fmt::print("{:<18} {:>11} {:>11} {:>7} {:>12} {:>7} {:>10}  {}\n", "policy", "step ms",
             "at p95 ms", "bubble%", "absorbs", "gap %", "planned ms",
             bytes ? "peak bytes per stage" : "most in flight per stage");
  std::optional<Error> last;
  bool any = false;
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "zb-h2", "greedy", "slackness", "adaptra"}) {
    const Result<plan::Plan> made = make_plan(profile, need(plan::parse_policy(name)), options);
    if (made) {
      any = true;
    } else {
      last = made.error();
    }
    print_row(profile, name, made);
    if (std::string_view(name) != "adaptra" || !made) continue;
    plan::PlanOptions spare = options;
    spare.spare_tolerance = plan::start_up_tolerance;
    spare.starts.push_back(made.value().order);
    print_row(profile, "adaptra, start-up", make_plan(profile, plan::Policy::adaptra, spare));
    print_bandwidth(made.value());
  }
  if (!any && last) throw Error(*last);
  fmt::print(
      "absorbs: delay that the weakest link may gain, both ways, for at most that delay plus 1 %; "
      "start-up: up to 0.5 % slower for more of it\n");
}

void sweep(const Arguments& a) {
  const plan::Profile profile = need(plan::read_profile(a.profile));
  if (a.link < 0 || a.link + 1 >= profile.stages) {
    throw Error(ExitCode::usage, fmt::format("--link {}: the profile has links 0 .. {}", a.link,
                                             profile.stages - 2));
  }
  const plan::PlanOptions options = options_of(a);
  std::vector<double> x;
  for (int k = 0; k < a.points; ++k) {
    x.push_back(a.from_ms + (a.to_ms - a.from_ms) * k / std::max(1, a.points - 1));
  }
  const auto slower = [&](double delay_ms) {
    return with_more_delay(profile, a.link, static_cast<std::int64_t>(delay_ms * 1e6));
  };
  std::vector<plan::Curve> curves;
  for (const std::string& name : a.policies) {
    const plan::Policy policy = need(plan::parse_policy(name));
    const plan::Plan fixed = need(make_plan(profile, policy, options));
    plan::Curve curve{name, {}};
    for (const double delay : x) {
      curve.y.push_back(ms(need(plan::simulate(slower(delay), fixed.order)).makespan_ns));
    }
    curves.push_back(std::move(curve));
  }
  plan::Curve replanned{"adaptra, re-planned", {}};
  plan::Curve bound{"lower bound", {}};
  for (const double delay : x) {
    const plan::Plan p = need(make_plan(slower(delay), plan::Policy::adaptra, options));
    replanned.y.push_back(ms(p.makespan_ns));
    bound.y.push_back(ms(p.lower_bound_ns));
  }
  curves.push_back(std::move(replanned));
  curves.push_back(std::move(bound));
  std::string csv = "delay_ms";
  for (const plan::Curve& curve : curves) {
    csv +=
        "," + (curve.name.find(',') == std::string::npos ? curve.name : "\"" + curve.name + "\"");
  }
  csv += "\n";
  for (std::size_t k = 0; k < x.size(); ++k) {
    csv += fmt::format("{:g}", x[k]);
    for (const plan::Curve& curve : curves) csv += fmt::format(",{:.6f}", curve.y[k]);
    csv += "\n";
  }
  if (a.csv.empty()) {
    fmt::print("{}", csv);
  } else {
    write(a.csv, csv);
  }
  if (!a.svg.empty()) {
    write(a.svg,
          curves_svg(fmt::format("Step time against the delay of link {}-{}", a.link, a.link + 1),
                     "added one-way delay, both directions (ms)", "step (ms)", x, curves));
  }
}

void check(const Arguments& a) {
  const plan::Profile profile = need(plan::read_profile(a.profile));
  const plan::Plan p = need(plan::read_plan(a.plan_file));
  plan::CheckOptions rules;
  rules.in_flight_limit = a.options.in_flight_limit;
  if (a.rendezvous) rules.send_rule = plan::SendRule::rendezvous;
  require_valid(profile, p.order, rules).throw_if_error();
  fmt::print(
      "the plan can run: {} stages, {} microbatches, every op once, no cycle, within memory\n",
      p.stages, p.microbatches);
}

void import_recorded(const Arguments& a) {
  const std::vector<plan::RecordedCase> cases = need(plan::read_recorded(a.profile));
  std::error_code code;
  std::filesystem::create_directories(a.output, code);
  if (code) {
    throw Error(ExitCode::file, fmt::format("{}: cannot be made: {}", a.output, code.message()));
  }
  for (const plan::RecordedCase& one : cases) {
    std::string name = one.profile.name;
    for (char& c : name) {
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.') c = '_';
    }
    write((std::filesystem::path(a.output) / (name + ".json")).string(), to_json(one.profile));
  }
}

void verify_theory(const Arguments& a) {
  fmt::print("{}", theory_report(plan::theory_samples(a.samples, a.seed)));
}

void add_limits(CLI::App* app, Arguments& a) {
  app->add_option("--in-flight-limit", a.options.in_flight_limit,
                  "most microbatches in flight per stage (0: no limit)")
      ->check(CLI::Range(0, 1'000'000));
}

void add_budget(CLI::App* app, Arguments& a) {
  add_limits(app, a);
  app->add_option("--budget-ms", a.budget_ms, "time for the search")->check(CLI::Range(0.0, 1e9));
  app->add_option("--budget-evals", a.options.budget_evals,
                  "evaluations instead of time: the same plan on every run");
  app->add_option("--seed", a.seed, "seed of the search");
  app->add_flag("--start-up", a.start_up,
                "up to 0.5 % slower if the links then absorb more delay: for a first plan");
}

struct Command {
  CLI::App* app;
  void (*run)(const Arguments&);
};

std::vector<Command> add_commands(CLI::App& app, Arguments& a) {
  CLI::App* m = app.add_subcommand("make", "make a plan");
  m->add_option("profile", a.profile, "profile (JSON)")->required();
  m->add_option("--policy", a.policy,
                "gpipe, 1f1b, zb-h1, zb-h2, greedy, slackness, adaptra or exact");
  m->add_option("-o,--output", a.output, "write the plan (JSON)");
  m->add_option("--svg", a.svg, "write a picture of the plan");
  add_budget(m, a);

  CLI::App* s = app.add_subcommand("simulate", "what an order does under another profile");
  s->add_option("profile", a.profile, "profile (JSON)")->required();
  s->add_option("--plan", a.plan_file, "plan (JSON)")->required();
  s->add_option("-o,--output", a.output, "write the plan with the new predictions");
  s->add_option("--svg", a.svg, "write a picture");
  add_limits(s, a);

  CLI::App* c = app.add_subcommand("compare", "one table of all policies");
  c->add_option("profile", a.profile, "profile (JSON)")->required();
  add_budget(c, a);

  CLI::App* w = app.add_subcommand("sweep", "step time against the delay of one link");
  w->add_option("profile", a.profile, "profile (JSON)")->required();
  w->add_option("--link", a.link, "link i joins stages i and i + 1");
  w->add_option("--from-ms", a.from_ms, "smallest added delay")->check(CLI::Range(0.0, 1e6));
  w->add_option("--to-ms", a.to_ms, "largest added delay")->check(CLI::Range(0.0, 1e6));
  w->add_option("--points", a.points, "number of delays")->check(CLI::Range(2, 1000));
  w->add_option("--policies", a.policies, "plans kept as they are while the link slows")
      ->delimiter(',');
  w->add_option("--csv", a.csv, "write the table (default: print it)");
  w->add_option("--svg", a.svg, "write the curves");
  add_budget(w, a);

  CLI::App* v = app.add_subcommand("verify-theory", "the slackness rule against simulation");
  v->add_option("--samples", a.samples, "pipelines per spread")->check(CLI::Range(1, 1'000'000));
  v->add_option("--seed", a.seed, "seed of the pipelines");

  CLI::App* k = app.add_subcommand("check", "can this plan run under this profile?");
  k->add_option("profile", a.profile, "profile (JSON)")->required();
  k->add_option("plan", a.plan_file, "plan (JSON)")->required();
  k->add_flag("--rendezvous", a.rendezvous,
              "sends of direct links wait for their receiver (no receives posted ahead)");
  add_limits(k, a);

  CLI::App* i = app.add_subcommand("import", "profiles from a file of recorded pipelines");
  i->add_option("recorded", a.profile, "recorded pipelines (JSON)")->required();
  i->add_option("-o,--output", a.output, "folder for the profiles")->required();
  return {{m, make},  {s, simulate},      {c, compare},        {w, sweep},
          {k, check}, {v, verify_theory}, {i, import_recorded}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Plans for pipeline-parallel training on slow links: make, judge and draw them.");
  app.footer(footer);
  app.set_version_flag("--version", adaptra::build_line());
  app.require_subcommand(1);
  Arguments arguments;
  const std::vector<Command> commands = add_commands(app, arguments);
  try {
    app.parse(argc, argv);
    for (const Command& command : commands) {
      if (command.app->parsed()) command.run(arguments);
    }
    return static_cast<int>(ExitCode::done);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : static_cast<int>(ExitCode::usage);
  } catch (const Error& error) {
    fmt::print(stderr, "adaptra-plan: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "adaptra-plan: internal error: {}\n", error.what());
    return static_cast<int>(ExitCode::internal);
  }
}
