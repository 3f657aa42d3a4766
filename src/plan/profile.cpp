#include "plan/profile.hpp"

#include "plan/json_fields.hpp"

#include <fmt/format.h>

#include <cmath>

namespace adaptra::plan {
namespace {

constexpr std::int64_t max_time_ns = 1'000'000'000'000'000;    // 1e15: 11 days
constexpr std::int64_t max_bytes = 1'000'000'000'000'000'000;  // 1e18
constexpr std::int64_t max_stages = 4096;
constexpr std::int64_t max_microbatches = 1'000'000;
constexpr std::int64_t max_cells = 20'000'000;  // S x N
// Sums must stay far from 2^63, so that a simulation never has to look.
constexpr double sum_limit = 2e18;

template <typename T>
void fill(std::vector<T>& values, int count, T value) {
  if (values.empty()) values.assign(static_cast<std::size_t>(count), value);
}

void check_list(const char* name, const std::vector<std::int64_t>& values, int length,
                std::int64_t high, std::vector<std::string>& problems) {
  if (values.size() != static_cast<std::size_t>(length)) {
    problems.push_back(fmt::format("{}: has {} entries, needs {}", name, values.size(), length));
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] > high) {
      problems.push_back(
          fmt::format("{}[{}]: {} is not a whole number in 0 .. {}", name, i, values[i], high));
    }
  }
}

void check_links(const Profile& p, std::vector<std::string>& problems) {
  if (p.links.size() != static_cast<std::size_t>(p.stages - 1)) {
    problems.push_back(
        fmt::format("links: has {} entries, needs {}", p.links.size(), p.stages - 1));
  }
  for (std::size_t i = 0; i < p.links.size(); ++i) {
    const Link& link = p.links[i];
    const auto check = [&](const char* name, std::int64_t value, std::int64_t low) {
      if (value < low || value > max_time_ns) {
        problems.push_back(fmt::format("links[{}].{}: {} is not a whole number in 0 .. {}", i, name,
                                       value, max_time_ns));
      }
    };
    check("forward_delay_ns", link.forward_delay_ns, 0);
    check("backward_delay_ns", link.backward_delay_ns, 0);
    check("forward_occupancy_ns", link.forward_occupancy_ns, 0);
    check("backward_occupancy_ns", link.backward_occupancy_ns, 0);
    check("forward_delay_p95_ns", link.forward_delay_p95_ns, -1);
    check("backward_delay_p95_ns", link.backward_delay_p95_ns, -1);
    check("forward_hold_ns", link.forward_hold_ns, -1);
    check("backward_hold_ns", link.backward_hold_ns, -1);
    check("forward_message_bytes", link.forward_message_bytes, 0);
    check("backward_message_bytes", link.backward_message_bytes, 0);
  }
}

// No simulation of this profile can overflow: the ops and messages laid end to end still fit.
void check_sums(const Profile& p, std::vector<std::string>& problems) {
  double time = static_cast<double>(p.outside_ns);
  for (std::size_t i = 0; i < static_cast<std::size_t>(p.stages); ++i) {
    time += p.microbatches *
            (static_cast<double>(p.forward_ns[i]) + static_cast<double>(p.backward_input_ns[i]) +
             static_cast<double>(p.backward_weight_ns[i]));
  }
  for (const Link& link : p.links) {
    time += p.microbatches * 2.0 *
            (static_cast<double>(std::max(link.forward_delay_ns, link.forward_delay_p95_ns)) +
             static_cast<double>(std::max(link.backward_delay_ns, link.backward_delay_p95_ns)) +
             static_cast<double>(link.forward_occupancy_ns + link.backward_occupancy_ns) +
             static_cast<double>(std::max<std::int64_t>(0, link.forward_hold_ns)) +
             static_cast<double>(std::max<std::int64_t>(0, link.backward_hold_ns)));
  }
  if (time > sum_limit) {
    problems.push_back(fmt::format(
        "forward_ns, backward_input_ns, backward_weight_ns, links: one step adds up to {:.3g} ns, "
        "more than {:.3g} ns can be computed exactly",
        time, sum_limit));
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(p.stages); ++i) {
    const double bytes =
        static_cast<double>(p.workspace_bytes[i]) +
        (p.microbatches + 1.0) *
            static_cast<double>(std::max(p.activation_bytes[i], p.activation_bytes_after_b[i]));
    if (bytes > sum_limit) {
      problems.push_back(
          fmt::format("activation_bytes[{}]: all microbatches together need {:.3g} bytes, more "
                      "than {:.3g} can be computed exactly",
                      i, bytes, sum_limit));
    }
  }
}

void check_jitter(const char* name, const std::vector<double>& values, int length,
                  std::vector<std::string>& problems) {
  if (values.empty()) return;
  if (values.size() != static_cast<std::size_t>(length)) {
    problems.push_back(
        fmt::format("op_jitter.{}: has {} entries, needs {}", name, values.size(), length));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] >= 0.0 && values[i] <= 10.0)) {
      problems.push_back(
          fmt::format("op_jitter.{}[{}]: {} is not a number in 0 .. 10", name, i, values[i]));
    }
  }
}

Link parse_link(const Json& json, const std::string& where, std::vector<std::string>& problems) {
  Link link;
  if (!json.is_object()) {
    problems.push_back(where + ": is not an object");
    return link;
  }
  JsonFields fields(json, where + ".", problems);
  const auto time = [&](const char* key, Need need, std::int64_t otherwise) {
    return fields.integer(key, 0, max_time_ns, need, otherwise);
  };
  link.forward_delay_ns = time("forward_delay_ns", Need::required, 0);
  link.backward_delay_ns = time("backward_delay_ns", Need::required, 0);
  link.forward_occupancy_ns = time("forward_occupancy_ns", Need::optional, 0);
  link.backward_occupancy_ns = time("backward_occupancy_ns", Need::optional, 0);
  link.forward_delay_p95_ns = time("forward_delay_p95_ns", Need::optional, -1);
  link.backward_delay_p95_ns = time("backward_delay_p95_ns", Need::optional, -1);
  link.forward_hold_ns = time("forward_hold_ns", Need::optional, -1);
  link.backward_hold_ns = time("backward_hold_ns", Need::optional, -1);
  link.forward_message_bytes = time("forward_message_bytes", Need::optional, 0);
  link.backward_message_bytes = time("backward_message_bytes", Need::optional, 0);
  if (const Json* mode = fields.raw("mode", Need::optional)) {
    if (*mode == "direct") {
      link.mode = LinkMode::direct;
    } else if (*mode != "delegated") {
      fields.problem("mode", "is neither \"delegated\" nor \"direct\"");
    }
  }
  fields.refuse_unknown();
  return link;
}

void parse_lists(JsonFields& fields, Profile& p, std::vector<std::string>& problems) {
  const auto stages = static_cast<std::size_t>(p.stages);
  const auto times = [&](const char* key) {
    return fields.integers(key, stages, 0, max_time_ns, Need::required);
  };
  const auto bytes = [&](const char* key) {
    return fields.integers(key, stages, 0, max_bytes, Need::optional);
  };
  p.forward_ns = times("forward_ns");
  p.backward_input_ns = times("backward_input_ns");
  p.backward_weight_ns = times("backward_weight_ns");
  p.activation_bytes = bytes("activation_bytes");
  p.activation_bytes_after_b = bytes("activation_bytes_after_b");
  p.workspace_bytes = bytes("workspace_bytes");
  p.memory_limit_bytes = bytes("memory_limit_bytes");
  for (std::int64_t& limit : p.memory_limit_bytes) {
    if (limit == max_bytes) limit = unlimited_bytes;
  }
  if (const Json* links = fields.raw("links", Need::optional)) {
    if (!links->is_array() || links->size() != stages - 1) {
      fields.problem("links", fmt::format("needs a list of {} links, one between each two stages",
                                          stages - 1));
    } else {
      for (std::size_t i = 0; i < links->size(); ++i) {
        p.links.push_back(parse_link((*links)[i], fmt::format("links[{}]", i), problems));
      }
    }
  }
  if (const Json* jitter = fields.raw("op_jitter", Need::optional)) {
    if (!jitter->is_object()) {
      fields.problem("op_jitter", "is not an object");
    } else {
      JsonFields inner(*jitter, "op_jitter.", problems);
      p.op_jitter.forward = inner.numbers("forward", stages, 0, 10, Need::optional);
      p.op_jitter.backward_input = inner.numbers("backward_input", stages, 0, 10, Need::optional);
      p.op_jitter.backward_weight = inner.numbers("backward_weight", stages, 0, 10, Need::optional);
      inner.refuse_unknown();
    }
  }
}

}  // namespace

std::string_view to_string(LinkMode mode) {
  return mode == LinkMode::direct ? "direct" : "delegated";
}

Profile uniform_profile(int stages, int microbatches, std::int64_t forward_ns,
                        std::int64_t backward_input_ns, std::int64_t backward_weight_ns) {
  Profile p;
  p.stages = stages;
  p.microbatches = microbatches;
  p.forward_ns.assign(static_cast<std::size_t>(stages), forward_ns);
  p.backward_input_ns.assign(static_cast<std::size_t>(stages), backward_input_ns);
  p.backward_weight_ns.assign(static_cast<std::size_t>(stages), backward_weight_ns);
  validate(p).throw_if_error();
  return p;
}

Status validate(Profile& p) {
  std::vector<std::string> problems;
  if (p.stages < 1 || p.stages > max_stages) {
    problems.push_back(fmt::format("stages: {} is not in 1 .. {}", p.stages, max_stages));
  }
  if (p.microbatches < 1 || p.microbatches > max_microbatches) {
    problems.push_back(
        fmt::format("microbatches: {} is not in 1 .. {}", p.microbatches, max_microbatches));
  }
  if (problems.empty() && std::int64_t{p.stages} * p.microbatches > max_cells) {
    problems.push_back(fmt::format("microbatches: stages x microbatches = {} is more than {}",
                                   std::int64_t{p.stages} * p.microbatches, max_cells));
  }
  if (!problems.empty()) return join_problems("profile", problems);

  fill(p.links, p.stages - 1, Link{});
  fill(p.activation_bytes, p.stages, std::int64_t{0});
  fill(p.activation_bytes_after_b, p.stages, std::int64_t{0});
  fill(p.workspace_bytes, p.stages, std::int64_t{0});
  fill(p.memory_limit_bytes, p.stages, unlimited_bytes);
  check_list("forward_ns", p.forward_ns, p.stages, max_time_ns, problems);
  check_list("backward_input_ns", p.backward_input_ns, p.stages, max_time_ns, problems);
  check_list("backward_weight_ns", p.backward_weight_ns, p.stages, max_time_ns, problems);
  check_list("activation_bytes", p.activation_bytes, p.stages, max_bytes, problems);
  check_list("activation_bytes_after_b", p.activation_bytes_after_b, p.stages, max_bytes, problems);
  check_list("workspace_bytes", p.workspace_bytes, p.stages, max_bytes, problems);
  check_list("memory_limit_bytes", p.memory_limit_bytes, p.stages, unlimited_bytes, problems);
  check_links(p, problems);
  check_jitter("forward", p.op_jitter.forward, p.stages, problems);
  check_jitter("backward_input", p.op_jitter.backward_input, p.stages, problems);
  check_jitter("backward_weight", p.op_jitter.backward_weight, p.stages, problems);
  if (p.outside_ns < 0 || p.outside_ns > max_time_ns) {
    problems.push_back(fmt::format("outside_ns: {} is not in 0 .. {}", p.outside_ns, max_time_ns));
  }
  if (problems.empty()) check_sums(p, problems);
  if (!problems.empty()) return join_problems("profile", problems);
  return {};
}

Profile at_p95(const Profile& profile) {
  Profile slow = profile;
  for (Link& link : slow.links) {
    // A hold left to its default follows the delay.
    if (link.forward_delay_p95_ns >= 0) link.forward_delay_ns = link.forward_delay_p95_ns;
    if (link.backward_delay_p95_ns >= 0) link.backward_delay_ns = link.backward_delay_p95_ns;
  }
  return slow;
}

bool has_p95(const Profile& profile) {
  for (const Link& link : profile.links) {
    if (link.forward_delay_p95_ns >= 0 || link.backward_delay_p95_ns >= 0) return true;
  }
  return false;
}

Result<Profile> parse_profile(std::string_view json) {
  const Result<Json> parsed = parse_object(json, "profile");
  if (!parsed) return parsed.error();
  std::vector<std::string> problems;
  JsonFields fields(parsed.value(), "", problems);
  Profile p;
  if (const Json* format = fields.raw("format", Need::required);
      format != nullptr && *format != "adaptra-profile") {
    fields.problem("format", "is not \"adaptra-profile\"");
  }
  fields.integer("version", 1, 1, Need::required, 1);
  p.name = fields.text("name", Need::optional);
  p.source = fields.text("source", Need::optional);
  p.replica = static_cast<int>(fields.integer("replica", 0, 1'000'000'000, Need::optional, 0));
  p.stages = static_cast<int>(fields.integer("stages", 1, max_stages, Need::required, 0));
  p.microbatches =
      static_cast<int>(fields.integer("microbatches", 1, max_microbatches, Need::required, 0));
  p.outside_ns = fields.integer("outside_ns", 0, max_time_ns, Need::optional, 0);
  // Lengths mean nothing before the counts are known.
  if (!problems.empty()) return join_problems("profile", problems);
  parse_lists(fields, p, problems);
  fields.refuse_unknown();
  if (!problems.empty()) return join_problems("profile", problems);
  const Status valid = validate(p);
  if (!valid) return valid.error();
  return p;
}

Result<Profile> read_profile(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return text.error();
  Result<Profile> profile = parse_profile(text.value());
  if (!profile) return Error(profile.error().code(), path + ": " + profile.error().what());
  return profile;
}

std::string to_json(const Profile& p) {
  Json json;
  json["format"] = "adaptra-profile";
  json["version"] = 1;
  if (!p.name.empty()) json["name"] = p.name;
  if (!p.source.empty()) json["source"] = p.source;
  json["replica"] = p.replica;
  json["stages"] = p.stages;
  json["microbatches"] = p.microbatches;
  json["forward_ns"] = p.forward_ns;
  json["backward_input_ns"] = p.backward_input_ns;
  json["backward_weight_ns"] = p.backward_weight_ns;
  json["links"] = Json::array();
  for (const Link& link : p.links) {
    Json entry;
    const auto optional = [&](const char* key, std::int64_t value, std::int64_t none) {
      if (value != none) entry[key] = value;
    };
    entry["forward_delay_ns"] = link.forward_delay_ns;
    entry["backward_delay_ns"] = link.backward_delay_ns;
    entry["forward_occupancy_ns"] = link.forward_occupancy_ns;
    entry["backward_occupancy_ns"] = link.backward_occupancy_ns;
    optional("forward_delay_p95_ns", link.forward_delay_p95_ns, -1);
    optional("backward_delay_p95_ns", link.backward_delay_p95_ns, -1);
    optional("forward_hold_ns", link.forward_hold_ns, -1);
    optional("backward_hold_ns", link.backward_hold_ns, -1);
    optional("forward_message_bytes", link.forward_message_bytes, 0);
    optional("backward_message_bytes", link.backward_message_bytes, 0);
    entry["mode"] = to_string(link.mode);
    json["links"].push_back(std::move(entry));
  }
  json["activation_bytes"] = p.activation_bytes;
  json["activation_bytes_after_b"] = p.activation_bytes_after_b;
  json["workspace_bytes"] = p.workspace_bytes;
  bool limited = false;
  for (const std::int64_t limit : p.memory_limit_bytes) limited |= limit != unlimited_bytes;
  // A stage without a limit among others that have one is written as the largest size there is.
  if (limited) {
    std::vector<std::int64_t> limits = p.memory_limit_bytes;
    for (std::int64_t& limit : limits) limit = std::min(limit, max_bytes);
    json["memory_limit_bytes"] = limits;
  }
  if (p.outside_ns > 0) json["outside_ns"] = p.outside_ns;
  if (!p.op_jitter.forward.empty()) json["op_jitter"]["forward"] = p.op_jitter.forward;
  if (!p.op_jitter.backward_input.empty()) {
    json["op_jitter"]["backward_input"] = p.op_jitter.backward_input;
  }
  if (!p.op_jitter.backward_weight.empty()) {
    json["op_jitter"]["backward_weight"] = p.op_jitter.backward_weight;
  }
  return json.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace adaptra::plan
