#include "plan/plan.hpp"

#include "plan/bound.hpp"
#include "plan/check.hpp"
#include "plan/exact.hpp"
#include "plan/json_fields.hpp"
#include "plan/portfolio.hpp"
#include "plan/simulate.hpp"
#include "plan/slack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

namespace adaptra::plan {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
}

Status check_options(const PlanOptions& options) {
  if (options.in_flight_limit < 0) {
    return Error(ExitCode::impossible_plan,
                 fmt::format("in-flight limit {}: at least one microbatch must be in flight",
                             options.in_flight_limit));
  }
  return {};
}

constexpr double most_combinations = 2e6;
constexpr double quick_budget_ms = 50.0;

// The truth where it can be had by trying everything, else what CBC makes of its time.
Result<ExactResult> solve(const Profile& profile, const PlanOptions& options) {
  if (exhaustive_combinations(profile) <= most_combinations) {
    return solve_exhaustively(profile, options.in_flight_limit);
  }
  CbcOptions cbc;
  cbc.in_flight_limit = options.in_flight_limit;
  cbc.time_limit_s = options.budget_ms / 1000.0;
  return solve_with_cbc(profile, cbc);
}

void apply_proof(const ExactResult& exact, Plan& plan) {
  if (exact.bound_ns <= plan.lower_bound_ns) return;
  plan.lower_bound_ns = std::min(exact.bound_ns, plan.makespan_ns);
  plan.best_reachable_ns = plan.lower_bound_ns;
  plan.gap = static_cast<double>(plan.makespan_ns) / static_cast<double>(plan.lower_bound_ns) - 1.0;
  if (plan.makespan_ns == plan.lower_bound_ns) plan.proven = "optimal";
}

Result<Order> parse_order_field(const Json& json) {
  std::vector<std::string> problems;
  Order order;
  const auto found = json.find("order");
  if (found == json.end() || !found->is_array() || found->empty()) {
    return Error(ExitCode::usage, "plan: order: needs a list of ops for each stage");
  }
  for (std::size_t i = 0; i < found->size() && problems.size() < 20; ++i) {
    const Json& row = (*found)[i];
    if (!row.is_array()) {
      problems.push_back(fmt::format("order[{}]: is not a list of ops", i));
      continue;
    }
    std::vector<Op> ops;
    for (std::size_t at = 0; at < row.size() && problems.size() < 20; ++at) {
      const Result<Op> op =
          row[at].is_string() ? parse_op(row[at].get_ref<const std::string&>())
                              : Result<Op>(Error(ExitCode::usage, "is not a text such as \"F0\""));
      if (op) {
        ops.push_back(op.value());
      } else {
        problems.push_back(fmt::format("order[{}][{}]: {}", i, at, op.error().what()));
      }
    }
    order.stages.push_back(std::move(ops));
  }
  if (!problems.empty()) return join_problems("plan", problems);
  return order;
}

}  // namespace

Result<Plan> plan_of_order(Profile profile, Order order, std::string policy,
                           const PlanOptions& options) {
  for (const Status& status : {validate(profile), check_options(options)}) {
    if (!status) return status.error();
  }
  CheckOptions rules;
  rules.in_flight_limit = options.in_flight_limit;
  const Status valid = require_valid(profile, order, rules);
  if (!valid) return valid.error();
  const Result<Schedule> simulated = simulate(profile, order);
  if (!simulated) return simulated.error();
  const Schedule& schedule = simulated.value();

  Plan plan;
  plan.stages = profile.stages;
  plan.microbatches = profile.microbatches;
  plan.policy = std::move(policy);
  plan.plan_version = options.plan_version;
  plan.replica = profile.replica;
  for (const Link& link : profile.links) plan.link_mode.push_back(link.mode);
  plan.warmup = warmup(order);
  for (std::size_t i = 0; i + 1 < plan.warmup.size(); ++i) {
    plan.slackness.push_back(plan.warmup[i] - plan.warmup[i + 1]);
  }
  plan.in_flight_peak = schedule.in_flight_peak;
  plan.peak_bytes = schedule.peak_bytes;
  plan.bubble = schedule.bubble;
  plan.makespan_ns = schedule.makespan_ns;
  plan.makespan_p95_ns = schedule.makespan_ns;
  if (has_p95(profile)) {
    const Result<Schedule> slow = simulate(at_p95(profile), order);
    if (!slow) return slow.error();
    plan.makespan_p95_ns = slow.value().makespan_ns;
  }
  LowerBound bound = lower_bound(profile, options.in_flight_limit);
  plan.lower_bound_ns = bound.makespan_ns;
  plan.best_reachable_ns = bound.makespan_ns;
  plan.bandwidth_bound = std::move(bound.bandwidth_bound);
  plan.gap =
      plan.lower_bound_ns > 0
          ? static_cast<double>(plan.makespan_ns) / static_cast<double>(plan.lower_bound_ns) - 1.0
          : 0.0;
  plan.proven = plan.makespan_ns == plan.lower_bound_ns ? "optimal" : "bound";
  // About a dozen simulations per link: only where that is quick, and not in a plan that is wanted
  // at once.
  const bool at_once = options.budget_evals == 0 && options.budget_ms < quick_budget_ms;
  if (!at_once &&
      profile.stages * static_cast<double>(profile.stages) * profile.microbatches < 20'000.0) {
    Result<std::vector<std::int64_t>> absorbed = absorbed_ns(profile, order);
    if (!absorbed) return absorbed.error();
    plan.absorbs_ns = std::move(absorbed).value();
  }
  plan.order = std::move(order);
  return plan;
}

Result<Plan> make_plan(Profile profile, Policy policy, const PlanOptions& options) {
  const Clock::time_point begin = Clock::now();
  for (const Status& status : {validate(profile), check_options(options)}) {
    if (!status) return status.error();
  }
  std::optional<ExactResult> exact;
  Generated made;
  if (policy == Policy::adaptra) {
    Result<Order> order = best_order(profile, options);
    if (!order) return order.error();
    made.order = std::move(order).value();
  } else if (policy == Policy::exact) {
    Result<ExactResult> solved = solve(profile, options);
    if (!solved) return solved.error();
    exact = std::move(solved).value();
    made.order = exact->order;
    made.adjustments.push_back("solver: " + exact->solver);
  } else {
    Result<Generated> generated = generate(profile, policy, options.in_flight_limit);
    if (!generated) return generated.error();
    made = std::move(generated).value();
  }
  Result<Plan> plan = plan_of_order(std::move(profile), std::move(made.order),
                                    std::string(to_string(policy)), options);
  if (!plan) return plan;
  plan.value().adjustments = std::move(made.adjustments);
  if (exact) apply_proof(*exact, plan.value());
  plan.value().planning_ns = since(begin);
  return plan;
}

std::string to_json(const Plan& plan) {
  Json json;
  json["format"] = "adaptra-plan";
  json["version"] = 1;
  json["stages"] = plan.stages;
  json["microbatches"] = plan.microbatches;
  json["policy"] = plan.policy;
  json["plan_version"] = plan.plan_version;
  json["replica"] = plan.replica;
  json["order"] = Json::array();
  for (const auto& stage : plan.order.stages) {
    Json row = Json::array();
    for (const Op op : stage) row.push_back(to_string(op));
    json["order"].push_back(std::move(row));
  }
  json["link_mode"] = Json::array();
  for (const LinkMode mode : plan.link_mode) json["link_mode"].push_back(to_string(mode));
  json["warmup"] = plan.warmup;
  json["slackness"] = plan.slackness;
  json["in_flight_peak"] = plan.in_flight_peak;
  json["peak_bytes"] = plan.peak_bytes;
  json["bubble"] = plan.bubble;
  json["makespan_ns"] = plan.makespan_ns;
  json["makespan_p95_ns"] = plan.makespan_p95_ns;
  json["lower_bound_ns"] = plan.lower_bound_ns;
  json["gap"] = plan.gap;
  json["best_reachable_ns"] = plan.best_reachable_ns;
  json["bandwidth_bound"] = Json::array();
  for (const BandwidthBound& bound : plan.bandwidth_bound) {
    json["bandwidth_bound"].push_back(
        {{"link", bound.link},
         {"direction",
          bound.direction == BandwidthBound::Direction::forward ? "forward" : "backward"}});
  }
  json["absorbs_ns"] = plan.absorbs_ns;
  json["proven"] = plan.proven;
  json["planning_ns"] = plan.planning_ns;
  json["adjustments"] = plan.adjustments;
  return json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

Result<Plan> parse_plan(std::string_view text) {
  const Result<Json> parsed = parse_object(text, "plan");
  if (!parsed) return parsed.error();
  const Json& json = parsed.value();
  if (const auto format = json.find("format"); format != json.end() && *format != "adaptra-plan") {
    return Error(ExitCode::usage, "plan: format: is not \"adaptra-plan\"");
  }
  Result<Order> order = parse_order_field(json);
  if (!order) return order.error();
  Plan plan;
  plan.order = std::move(order).value();
  plan.stages = static_cast<int>(plan.order.stages.size());
  for (const auto& stage : plan.order.stages) {
    for (const Op op : stage) plan.microbatches = std::max(plan.microbatches, op.microbatch + 1);
  }
  if (plan.microbatches == 0) return Error(ExitCode::usage, "plan: order: has no ops");
  std::vector<std::string> problems;
  JsonFields fields(json, "", problems);
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  constexpr int most_int = std::numeric_limits<int>::max();
  fields.integer("version", 1, 1, Need::optional, 1);
  if (fields.integer("stages", 1, most_int, Need::optional, plan.stages) != plan.stages) {
    fields.problem("stages", fmt::format("the order has {} stages", plan.stages));
  }
  if (fields.integer("microbatches", 1, most_int, Need::optional, plan.microbatches) !=
      plan.microbatches) {
    fields.problem("microbatches", fmt::format("the order has {} microbatches", plan.microbatches));
  }
  plan.policy = fields.text("policy", Need::optional);
  plan.plan_version = fields.integer("plan_version", 0, most, Need::optional, 0);
  plan.replica = static_cast<int>(fields.integer("replica", 0, most_int, Need::optional, 0));
  plan.makespan_ns = fields.integer("makespan_ns", 0, most, Need::optional, 0);
  plan.makespan_p95_ns = fields.integer("makespan_p95_ns", 0, most, Need::optional, 0);
  plan.lower_bound_ns = fields.integer("lower_bound_ns", 0, most, Need::optional, 0);
  plan.planning_ns = fields.integer("planning_ns", 0, most, Need::optional, 0);
  plan.warmup = warmup(plan.order);
  for (std::size_t i = 0; i + 1 < plan.warmup.size(); ++i) {
    plan.slackness.push_back(plan.warmup[i] - plan.warmup[i + 1]);
  }
  for (const auto& stage : plan.order.stages) plan.in_flight_peak.push_back(in_flight_peak(stage));
  if (!problems.empty()) return join_problems("plan", problems);
  return plan;
}

Result<Plan> read_plan(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return text.error();
  Result<Plan> plan = parse_plan(text.value());
  if (!plan) return Error(plan.error().code(), path + ": " + plan.error().what());
  return plan;
}

}  // namespace adaptra::plan
