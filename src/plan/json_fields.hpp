#pragma once
// Reads the fields of one JSON object strictly and collects every problem. Inner header of plan/.

#include "core/error.hpp"
#include "plan/files.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace adaptra::plan {

using Json = nlohmann::ordered_json;

enum class Need { required, optional };

class JsonFields {
 public:
  /// `where` is put before the name of each field, e.g. "links[2].".
  JsonFields(const Json& object, std::string where, std::vector<std::string>& problems);

  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high, Need need,
                       std::int64_t otherwise);
  std::string text(const char* key, Need need);
  std::vector<std::int64_t> integers(const char* key, std::size_t length, std::int64_t low,
                                     std::int64_t high, Need need);
  std::vector<double> numbers(const char* key, std::size_t length, double low, double high,
                              Need need);
  /// The value as it is, or null.
  const Json* raw(const char* key, Need need);
  void problem(const std::string& key, const std::string& what);
  /// Call last: every key not asked for is a problem, with the nearest known name.
  void refuse_unknown();

 private:
  const Json& object_;
  std::string where_;
  std::vector<std::string>& problems_;
  std::vector<std::string> known_;
};

/// One Error (usage) of all problems; `what` names the file or contract.
Error join_problems(const std::string& what, const std::vector<std::string>& problems);

/// Parses text that must be one JSON object.
Result<Json> parse_object(std::string_view text, const std::string& what);

}  // namespace adaptra::plan
