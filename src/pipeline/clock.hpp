#pragma once
// This rank's monotonic clock.

#include <time.h>

#include <cstdint>

namespace adaptra::pipeline {

/// CLOCK_MONOTONIC in nanoseconds.
inline std::int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

}  // namespace adaptra::pipeline
