#include "plan/recorded.hpp"

#include "plan/json_fields.hpp"

#include <fmt/format.h>

#include <cmath>

namespace adaptra::plan {
namespace {

std::vector<std::int64_t> nanoseconds(const std::vector<double>& ms) {
  std::vector<std::int64_t> ns;
  for (const double value : ms) ns.push_back(std::llround(value * 1e6));
  return ns;
}

RecordedCase read_case(const Json& json, const std::string& where,
                       std::vector<std::string>& problems) {
  RecordedCase out;
  if (!json.is_object()) {
    problems.push_back(where + ": is not an object");
    return out;
  }
  JsonFields fields(json, where + ".", problems);
  Profile& p = out.profile;
  constexpr double longest_ms = 1e9;
  p.name = fields.text("name", Need::required);
  p.source = "recorded cluster";
  p.stages = static_cast<int>(fields.integer("stages", 1, 4096, Need::required, 0));
  p.microbatches =
      static_cast<int>(fields.integer("microbatches", 1, 1'000'000, Need::required, 0));
  if (p.stages < 1) return out;
  const auto stages = static_cast<std::size_t>(p.stages);
  const auto times = [&](const char* key, std::size_t length) {
    return nanoseconds(fields.numbers(key, length, 0.0, longest_ms, Need::required));
  };
  p.forward_ns = times("forward_ms", stages);
  p.backward_input_ns = times("backward_input_ms", stages);
  p.backward_weight_ns = times("backward_weight_ms", stages);
  const std::vector<std::int64_t> delays = times("link_delay_ms", stages - 1);
  const std::int64_t bytes =
      fields.integer("message_bytes", 0, 1'000'000'000'000, Need::optional, 0);
  for (const std::int64_t delay : delays) {
    Link link;
    link.forward_delay_ns = delay;
    link.backward_delay_ns = delay;
    link.forward_message_bytes = bytes;
    link.backward_message_bytes = bytes;
    p.links.push_back(link);
  }
  if (const auto simulated = json.find("simulated_ms");
      simulated != json.end() && simulated->is_object()) {
    const auto value = simulated->find("pipemorph_unlimited_memory");
    if (value != simulated->end() && value->is_number()) {
      out.published_unlimited_ms = value->get<double>();
    }
  }
  return out;
}

}  // namespace

Result<std::vector<RecordedCase>> read_recorded(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return text.error();
  const Result<Json> json = parse_object(text.value(), path);
  if (!json) return json.error();
  const auto cases = json.value().find("cases");
  if (cases == json.value().end() || !cases->is_array() || cases->empty()) {
    return Error(ExitCode::usage, path + ": cases: needs a list of recorded cases");
  }
  std::vector<RecordedCase> out;
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < cases->size(); ++i) {
    RecordedCase one = read_case((*cases)[i], fmt::format("cases[{}]", i), problems);
    if (problems.empty()) {
      const Status valid = validate(one.profile);
      if (!valid) problems.push_back(fmt::format("cases[{}]: {}", i, valid.error().what()));
    }
    out.push_back(std::move(one));
  }
  if (!problems.empty()) return join_problems(path, problems);
  return out;
}

}  // namespace adaptra::plan
