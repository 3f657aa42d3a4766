#pragma once
// Random pipelines for property tests. Deterministic by seed; counts grow with ADAPTRA_TEST_SCALE.

#include "plan/profile.hpp"

#include <cstdint>
#include <cstdlib>
#include <random>

namespace adaptra::plan {

/// `count` times the environment variable ADAPTRA_TEST_SCALE (default 1), at least 1.
inline int scaled(int count) {
  const char* text = std::getenv("ADAPTRA_TEST_SCALE");
  const double scale = text == nullptr ? 1.0 : std::atof(text);
  return std::max(1, static_cast<int>(count * (scale > 0 ? scale : 1.0)));
}

enum class Limits { none, some };

inline Profile random_profile(std::mt19937_64& random, int most_stages, int most_microbatches,
                              Limits limits) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  const int stages = static_cast<int>(pick(1, most_stages));
  Profile p = uniform_profile(stages, static_cast<int>(pick(1, most_microbatches)), 1, 1, 1);
  const std::int64_t longest = pick(0, 3) == 0 ? 3 : 1'000'000;
  for (std::size_t i = 0; i < p.forward_ns.size(); ++i) {
    p.forward_ns[i] = pick(1, longest);
    p.backward_input_ns[i] = pick(1, longest);
    p.backward_weight_ns[i] = pick(0, longest);
    p.activation_bytes[i] = pick(1, 20);
    p.activation_bytes_after_b[i] = pick(0, 20);
    p.workspace_bytes[i] = pick(0, 5);
    if (limits == Limits::some && pick(0, 1) == 0) {
      p.memory_limit_bytes[i] = p.workspace_bytes[i] +
                                std::max(p.activation_bytes[i], p.activation_bytes_after_b[i]) +
                                pick(0, 80);
    }
  }
  const bool direct = pick(0, 4) == 0;
  for (Link& link : p.links) {
    if (pick(0, 1) == 0) {
      link.forward_delay_ns = pick(0, 3 * longest);
      link.backward_delay_ns = pick(0, 3 * longest);
    }
    if (pick(0, 2) == 0) {
      link.forward_occupancy_ns = pick(0, longest);
      link.backward_occupancy_ns = pick(0, 2 * longest);
    }
    if (direct) link.mode = LinkMode::direct;
    if (direct && pick(0, 1) == 0) link.forward_hold_ns = pick(0, longest);
  }
  return p;
}

}  // namespace adaptra::plan
