#include "faults/schedule.hpp"

#include "core/error.hpp"
#include "core/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

namespace adaptra::faults {
namespace {

constexpr int most_rails = 32;

bool holds(const Fault& fault, int place, std::int64_t step) {
  if (step < fault.first_step || step >= fault.end_step) return false;
  return fault.places.empty() ||
         std::find(fault.places.begin(), fault.places.end(), place) != fault.places.end();
}

std::int64_t to_ns(double seconds) {
  return std::llround(seconds * 1e9);
}

void check(const Fault& fault) {
  const auto refuse = [](const std::string& why) { throw Error(ExitCode::usage, "fault: " + why); };
  if (fault.end_step <= fault.first_step) refuse("the last step lies before the first");
  if (!(fault.amount_s >= 0) || !(fault.jitter_s >= 0) || fault.amount_s > 1e5 ||
      fault.jitter_s > 1e5) {
    refuse("times must lie between 0 and 1e5 s");
  }
  if (fault.kind == Kind::bandwidth && !(fault.amount_bytes_per_s > 0)) {
    refuse("a bandwidth must be above 0");
  }
  if (fault.kind == Kind::slow_compute && !(fault.factor > 0)) refuse("a factor must be above 0");
  if (fault.rail < 0 || fault.rail >= most_rails) refuse("rails are numbered from 0 to 31");
}

// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// One line of a trace.
struct Change {
  std::int64_t step = 0;
  std::vector<int> links;
  double seconds = 0;
};

Change parse_line(const std::string& line, const std::string& where) {
  const auto refuse = [&](const std::string& why) -> Change {
    throw Error(ExitCode::usage,
                fmt::format("{}: {} (a line is iteration;i_j[,k_l...];seconds)", where, why));
  };
  std::istringstream in(line);
  std::string step, links, seconds, rest;
  if (!std::getline(in, step, ';') || !std::getline(in, links, ';') ||
      !std::getline(in, seconds, ';') || std::getline(in, rest, ';')) {
    return refuse("not three fields");
  }
  Change change;
  std::size_t used = 0;
  try {
    change.step = std::stoll(step, &used);
    if (used != step.size() || change.step < 0) return refuse("bad iteration '" + step + "'");
    change.seconds = std::stod(seconds, &used);
    if (used != seconds.size() || std::isnan(change.seconds) || change.seconds < 0) {
      return refuse("bad seconds '" + seconds + "'");
    }
  } catch (const std::logic_error&) {
    return refuse("not a number");
  }
  std::istringstream list(links);
  for (std::string link; std::getline(list, link, ',');) {
    int from = -1, to = -1, length = 0;
    if (std::sscanf(link.c_str(), "%d_%d%n", &from, &to, &length) != 2 ||
        length != static_cast<int>(link.size()) || from < 0 || to != from + 1) {
      return refuse("bad link '" + link + "': it joins a stage and the next one");
    }
    change.links.push_back(from);
  }
  if (change.links.empty() && !std::isinf(change.seconds)) return refuse("no link");
  if (!change.links.empty() && std::isinf(change.seconds)) return refuse("an endless latency");
  return change;
}

}  // namespace

Schedule::Schedule(std::vector<Fault> faults) : faults_(std::move(faults)) {
  for (const Fault& fault : faults_) check(fault);
}

LinkCondition Schedule::on_link(LinkId link, Way way, std::int64_t step) const {
  LinkCondition condition;
  for (const Fault& fault : faults_) {
    if (fault.kind == Kind::slow_compute || !holds(fault, link.value, step)) continue;
    if (std::find(fault.ways.begin(), fault.ways.end(), way) == fault.ways.end()) continue;
    switch (fault.kind) {
      case Kind::latency:
        condition.latency_ns += to_ns(fault.amount_s);
        condition.jitter_ns += to_ns(fault.jitter_s);
        break;
      case Kind::bandwidth:
        condition.bytes_per_s = condition.bytes_per_s > 0
                                    ? std::min(condition.bytes_per_s, fault.amount_bytes_per_s)
                                    : fault.amount_bytes_per_s;
        break;
      case Kind::rail_down:
        condition.rails_down |= 1U << fault.rail;
        condition.after_messages = fault.after_messages;
        break;
      case Kind::delegate_stall:
        condition.stall_ns += to_ns(fault.amount_s);
        break;
      case Kind::delegate_crash:
        condition.crash = 1;
        condition.after_messages = fault.after_messages;
        break;
      case Kind::slow_compute:
        break;
    }
  }
  return condition;
}

double Schedule::compute_factor(StageId stage, std::int64_t step) const {
  double factor = 1;
  for (const Fault& fault : faults_) {
    if (fault.kind == Kind::slow_compute && holds(fault, stage.value, step)) factor *= fault.factor;
  }
  return factor;
}

std::int64_t latency_ns(const LinkCondition& condition, LinkId link, std::int64_t step,
                        MicrobatchId microbatch) {
  if (condition.jitter_ns == 0) return condition.latency_ns;
  const std::uint64_t key =
      mix(mix(static_cast<std::uint64_t>(step)) ^ (static_cast<std::uint64_t>(link.value) << 32) ^
          static_cast<std::uint64_t>(microbatch.value));
  const double share = static_cast<double>(key >> 11) * 0x1.0p-53;
  return condition.latency_ns +
         static_cast<std::int64_t>(share * static_cast<double>(condition.jitter_ns));
}

Fault parse_fault(const std::string& text) {
  static const std::map<std::string, Kind> kinds = {
      {"latency", Kind::latency},
      {"bandwidth", Kind::bandwidth},
      {"rail_down", Kind::rail_down},
      {"delegate_stall", Kind::delegate_stall},
      {"delegate_crash", Kind::delegate_crash},
      {"slow_compute", Kind::slow_compute},
  };
  const auto refuse = [&](const std::string& why) {
    throw Error(ExitCode::usage, fmt::format("fault '{}': {}", text, why));
  };
  const auto meant = [](const std::string& name, const std::vector<std::string>& known) {
    const auto nearest = nearest_name(name, known);
    return nearest.empty() ? fmt::format("; one of {}", fmt::join(known, ", "))
                           : fmt::format("; did you mean {}?", nearest);
  };
  std::istringstream words(text);
  std::string word;
  words >> word;
  const auto kind = kinds.find(word);
  if (kind == kinds.end()) {
    std::vector<std::string> known;
    for (const auto& [name, value] : kinds) known.push_back(name);
    refuse("unknown kind '" + word + "'" + meant(word, known));
  }
  Fault fault;
  fault.kind = kind->second;
  const auto set = [&](const std::string& key, const std::string& value) {
    const auto number = [&](const std::string& of) {
      std::size_t used = 0;
      double x = 0;
      try {
        x = std::stod(of, &used);
      } catch (const std::logic_error&) {
      }
      if (used == 0 || used != of.size() || !std::isfinite(x))
        refuse("no number: " + key + "=" + value);
      return x;
    };
    const auto whole = [&](const std::string& of) {
      const double x = number(of);
      if (x != std::floor(x) || x < 0 || x > 1e9) refuse("no whole number: " + key + "=" + value);
      return static_cast<int>(x);
    };
    if (key == "links" || key == "stages") {
      std::istringstream list(value);
      for (std::string one; std::getline(list, one, ',');) fault.places.push_back(whole(one));
    } else if (key == "steps") {
      const auto colon = value.find(':');
      fault.first_step = whole(value.substr(0, colon));
      if (colon != std::string::npos && colon + 1 < value.size()) {
        fault.end_step = whole(value.substr(colon + 1)) + std::int64_t{1};
      }
    } else if (key == "way") {
      if (value != "forward" && value != "backward") refuse("way is forward or backward");
      fault.ways = {value == "forward" ? Way::forward : Way::backward};
    } else if (key == "ms") {
      fault.amount_s = number(value) * 1e-3;
    } else if (key == "jitter_ms") {
      fault.jitter_s = number(value) * 1e-3;
    } else if (key == "mb_per_s") {
      fault.amount_bytes_per_s = number(value) * 1e6;
    } else if (key == "factor") {
      fault.factor = number(value);
    } else if (key == "rail") {
      fault.rail = whole(value);
    } else if (key == "after") {
      fault.after_messages = whole(value);
    } else {
      refuse("unknown key '" + key + "'" +
             meant(key, {"links", "stages", "steps", "way", "ms", "jitter_ms", "mb_per_s", "factor",
                         "rail", "after"}));
    }
  };
  while (words >> word) {
    const auto equals = word.find('=');
    if (equals == std::string::npos) refuse("'" + word + "' is not key=value");
    set(word.substr(0, equals), word.substr(equals + 1));
  }
  try {
    check(fault);
  } catch (const Error& error) {
    refuse(error.what());
  }
  return fault;
}

std::vector<Fault> read_trace(const std::string& text, const std::string& name) {
  std::vector<Fault> faults;
  std::map<int, std::size_t> open;  // link -> its fault that still holds
  std::istringstream in(text);
  std::int64_t last_step = 0;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", name, number);
    const Change change = parse_line(line, where);
    if (change.step < last_step) {
      throw Error(ExitCode::usage, where + ": iterations must not go back");
    }
    last_step = change.step;
    if (change.links.empty()) {
      Fault fault;
      fault.kind = Kind::rail_down;
      fault.first_step = change.step;
      faults.push_back(fault);
    }
    for (const int link : change.links) {
      if (const auto it = open.find(link); it != open.end()) {
        faults[it->second].end_step = change.step;
        open.erase(it);
      }
      if (change.seconds == 0) continue;
      Fault fault;
      fault.first_step = change.step;
      fault.places = {link};
      fault.amount_s = change.seconds;
      open[link] = faults.size();
      faults.push_back(fault);
    }
  }
  // A link changed twice at one iteration leaves an empty interval behind.
  std::erase_if(faults, [](const Fault& fault) { return fault.end_step <= fault.first_step; });
  return faults;
}

}  // namespace adaptra::faults
