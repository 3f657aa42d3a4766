#pragma once
// The recorded pipelines of tests/plan/data.

#include "plan/recorded.hpp"

namespace adaptra::plan {

inline std::vector<RecordedCase> recorded_cases() {
  return read_recorded(ADAPTRA_TEST_DATA "/plan/data/recorded_clusters.json").value();
}

}  // namespace adaptra::plan
