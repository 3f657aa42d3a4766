#include "plan/json_fields.hpp"

#include "core/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace adaptra::plan {
namespace {

// A short rendering of a bad value for a message; never fails, whatever bytes the text holds.
std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return text;
}

bool integer_of(const Json& value, std::int64_t& out) {
  if (value.is_number_unsigned()) {
    const auto u = value.get<std::uint64_t>();
    if (u > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return false;
    out = static_cast<std::int64_t>(u);
    return true;
  }
  if (value.is_number_integer()) {
    out = value.get<std::int64_t>();
    return true;
  }
  return false;
}

}  // namespace

JsonFields::JsonFields(const Json& object, std::string where, std::vector<std::string>& problems)
    : object_(object), where_(std::move(where)), problems_(problems) {}

void JsonFields::problem(const std::string& key, const std::string& what) {
  problems_.push_back(where_ + key + ": " + what);
}

const Json* JsonFields::raw(const char* key, Need need) {
  known_.emplace_back(key);
  const auto found = object_.find(key);
  if (found == object_.end()) {
    if (need == Need::required) problem(key, "is missing");
    return nullptr;
  }
  return &*found;
}

std::int64_t JsonFields::integer(const char* key, std::int64_t low, std::int64_t high, Need need,
                                 std::int64_t otherwise) {
  const Json* value = raw(key, need);
  if (value == nullptr) return otherwise;
  std::int64_t out = 0;
  if (!integer_of(*value, out) || out < low || out > high) {
    problem(key, fmt::format("{} is not a whole number in {} .. {}", shown(*value), low, high));
    return otherwise;
  }
  return out;
}

std::string JsonFields::text(const char* key, Need need) {
  const Json* value = raw(key, need);
  if (value == nullptr) return {};
  if (!value->is_string()) {
    problem(key, fmt::format("{} is not a text", shown(*value)));
    return {};
  }
  return value->get<std::string>();
}

std::vector<std::int64_t> JsonFields::integers(const char* key, std::size_t length,
                                               std::int64_t low, std::int64_t high, Need need) {
  const Json* value = raw(key, need);
  if (value == nullptr) return {};
  if (!value->is_array() || value->size() != length) {
    problem(key, value->is_array()
                     ? fmt::format("has {} entries, needs {}", value->size(), length)
                     : fmt::format("{} is not a list of {} numbers", shown(*value), length));
    return {};
  }
  std::vector<std::int64_t> out;
  out.reserve(length);
  for (std::size_t i = 0; i < length; ++i) {
    std::int64_t number = 0;
    if (!integer_of((*value)[i], number) || number < low || number > high) {
      problem(fmt::format("{}[{}]", key, i),
              fmt::format("{} is not a whole number in {} .. {}", shown((*value)[i]), low, high));
    }
    out.push_back(number);
  }
  return out;
}

std::vector<double> JsonFields::numbers(const char* key, std::size_t length, double low,
                                        double high, Need need) {
  const Json* value = raw(key, need);
  if (value == nullptr) return {};
  if (!value->is_array() || value->size() != length) {
    problem(key, fmt::format("needs a list of {} numbers", length));
    return {};
  }
  std::vector<double> out;
  for (std::size_t i = 0; i < length; ++i) {
    const Json& entry = (*value)[i];
    const double number = entry.is_number() ? entry.get<double>() : std::nan("");
    if (!(number >= low && number <= high)) {
      problem(fmt::format("{}[{}]", key, i),
              fmt::format("{} is not a number in {} .. {}", shown(entry), low, high));
    }
    out.push_back(number);
  }
  return out;
}

void JsonFields::refuse_unknown() {
  for (const auto& [key, value] : object_.items()) {
    if (!key.empty() && key[0] == '_') continue;
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    const std::string near = nearest_name(key, known_);
    problem(shown(Json(key)), near.empty() ? std::string("unknown field")
                                           : "unknown field; did you mean " + near + "?");
  }
}

Error join_problems(const std::string& what, const std::vector<std::string>& problems) {
  constexpr std::size_t most = 20;
  std::string text = what + ":";
  for (std::size_t i = 0; i < std::min(problems.size(), most); ++i) text += "\n  " + problems[i];
  if (problems.size() > most) text += fmt::format("\n  and {} more", problems.size() - most);
  return Error(ExitCode::usage, text);
}

Result<Json> parse_object(std::string_view text, const std::string& what) {
  try {
    Json json = Json::parse(text);
    if (!json.is_object()) return Error(ExitCode::usage, what + ": not a JSON object");
    return json;
  } catch (const nlohmann::json::exception& error) {
    return Error(ExitCode::usage, fmt::format("{}: not valid JSON ({})", what, error.what()));
  }
}

Result<std::string> read_file(const std::string& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) {
    return Error(ExitCode::file, fmt::format("{}: cannot be read: is a directory", path));
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || in.bad()) {
    return Error(ExitCode::file, fmt::format("{}: cannot be read: {}", path,
                                             errno != 0 ? std::strerror(errno) : "empty file"));
  }
  return text.str();
}

Status write_file(const std::string& path, std::string_view text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) {
    return Error(ExitCode::file, fmt::format("{}: cannot be written: {}", path,
                                             errno != 0 ? std::strerror(errno) : "unknown error"));
  }
  return {};
}

}  // namespace adaptra::plan
