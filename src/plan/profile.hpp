#pragma once
// What the planner knows of one pipeline: how long each op takes on each stage, how slow each link
// is, how much memory each stage has. One profile per data-parallel replica. All times are integer
// nanoseconds in 0 .. 1e15, all sizes bytes. Plain data: local, no thread of its own.
//
// A message of link i enters the wire when its op has ended and the wire is free, occupies it for
// `occupancy` and arrives `delay` later. Activations go down (forward), gradients up (backward);
// each direction is its own resource. Network cards shared by several links are not modelled.

#include "core/error.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace adaptra::plan {

/// Who waits for a message to leave: nobody (delegated), or the stage that sent it (direct).
enum class LinkMode { delegated, direct };

std::string_view to_string(LinkMode mode);

/// "No limit" of `memory_limit_bytes`.
inline constexpr std::int64_t unlimited_bytes = std::numeric_limits<std::int64_t>::max();

/// Link i joins stages i and i + 1.
struct Link {
  std::int64_t forward_delay_ns = 0;   ///< one-way latency, i to i + 1 (mean)
  std::int64_t backward_delay_ns = 0;  ///< one-way latency, i + 1 to i (mean)
  std::int64_t forward_occupancy_ns = 0;
  std::int64_t backward_occupancy_ns = 0;
  std::int64_t forward_delay_p95_ns = -1;   ///< -1: not known, the mean holds
  std::int64_t backward_delay_p95_ns = -1;  ///< -1: not known, the mean holds
  std::int64_t forward_hold_ns = -1;   ///< direct mode: how long the sender is held after its op;
  std::int64_t backward_hold_ns = -1;  ///< -1: delay + occupancy
  std::int64_t forward_message_bytes = 0;
  std::int64_t backward_message_bytes = 0;
  LinkMode mode = LinkMode::delegated;

  friend bool operator==(const Link&, const Link&) = default;
};

/// Relative standard deviation of op times, per stage; empty vectors: none.
struct OpJitter {
  std::vector<double> forward;          ///< [S]
  std::vector<double> backward_input;   ///< [S]
  std::vector<double> backward_weight;  ///< [S]

  friend bool operator==(const OpJitter&, const OpJitter&) = default;
};

struct Profile {
  std::string name;    ///< free text
  std::string source;  ///< where the numbers come from, free text
  int replica = 0;
  int stages = 0;                                      ///< S >= 1
  int microbatches = 0;                                ///< N >= 1
  std::vector<std::int64_t> forward_ns;                ///< [S]
  std::vector<std::int64_t> backward_input_ns;         ///< [S]
  std::vector<std::int64_t> backward_weight_ns;        ///< [S]
  std::vector<Link> links;                             ///< [S-1]
  std::vector<std::int64_t> activation_bytes;          ///< [S] from start of F to start of B
  std::vector<std::int64_t> activation_bytes_after_b;  ///< [S] from end of B to end of W
  std::vector<std::int64_t> workspace_bytes;           ///< [S] while any op runs
  std::vector<std::int64_t> memory_limit_bytes;        ///< [S] for activations and workspace
  std::int64_t outside_ns = 0;  ///< part of a step outside the pipeline (reduction, optimizer)
  OpJitter op_jitter;

  friend bool operator==(const Profile&, const Profile&) = default;
};

/// A profile of S equal stages without link delays and memory limits: a start for programs and
/// tests.
Profile uniform_profile(int stages, int microbatches, std::int64_t forward_ns,
                        std::int64_t backward_input_ns, std::int64_t backward_weight_ns);

/// Fills vectors left empty (links, memory) with their defaults and checks every rule: lengths,
/// ranges, sums that would overflow. The error (usage) names every bad field.
Status validate(Profile& profile);

/// The same pipeline with every message at its p95 delay.
Profile at_p95(const Profile& profile);
bool has_p95(const Profile& profile);

/// Reads the JSON contract ("adaptra-profile", version 1). Strict: an unknown key is an error with
/// the nearest name; keys that start with '_' are notes and skipped.
Result<Profile> parse_profile(std::string_view json);
/// As parse_profile; a file that cannot be read is an error of ExitCode::file.
Result<Profile> read_profile(const std::string& path);

std::string to_json(const Profile& profile);

}  // namespace adaptra::plan
