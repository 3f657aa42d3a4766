#pragma once
// Recorded pipelines: a JSON file of cases with one op time per stage in milliseconds and one delay
// per link, as published measurements give them. Turned into profiles.

#include "core/error.hpp"
#include "plan/profile.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace adaptra::plan {

struct RecordedCase {
  Profile profile;                      ///< name: the case's name; memory unlimited
  double published_unlimited_ms = 0.0;  ///< the published policy's simulated step; 0 if not given
};

/// Error (usage) naming the case and field; (file) if it cannot be read.
Result<std::vector<RecordedCase>> read_recorded(const std::string& path);

}  // namespace adaptra::plan
