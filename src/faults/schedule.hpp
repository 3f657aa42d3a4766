#pragma once
// What is injected when and where: for rehearsals and for tests. Pure functions of the step, so
// that every rank knows the same without talking. The detector and the planner never look in here.
//
// A fault holds for the steps first_step <= step < end_step. Latencies of overlapping faults add
// up, the smallest bandwidth wins, slow-downs multiply.

#include "core/ids.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace adaptra::faults {

enum class Kind : std::uint8_t {
  latency,         ///< `amount_s` more per message, up to `jitter_s` on top
  bandwidth,       ///< messages leave one after the other, at `amount_bytes_per_s`
  rail_down,       ///< rail `rail` of the link is cut
  delegate_stall,  ///< the thread that moves the link's messages sleeps `amount_s` once per step
  delegate_crash,  ///< that thread dies of an exception
  slow_compute,    ///< the stage's ops take `factor` times as long
};

/// Which way of a link.
enum class Way : std::uint8_t { forward, backward };

constexpr std::int64_t for_ever = std::numeric_limits<std::int64_t>::max();

struct Fault {
  Kind kind = Kind::latency;
  std::int64_t first_step = 0;
  std::int64_t end_step = for_ever;
  std::vector<int> places;  ///< links (slow_compute: stages); empty: all
  std::vector<Way> ways = {Way::forward, Way::backward};
  double amount_s = 0;
  double jitter_s = 0;
  double amount_bytes_per_s = 0;
  double factor = 1;
  int rail = 0;
  int after_messages = 0;  ///< rail_down, delegate_crash: once so many were sent in the step
};

/// What a link's sending end has to do to its messages in one step. Plain numbers: it is handed
/// from thread to thread.
struct LinkCondition {
  std::int64_t latency_ns = 0;
  std::int64_t jitter_ns = 0;
  double bytes_per_s = 0;        ///< 0: as fast as it goes
  std::uint32_t rails_down = 0;  ///< bit r: rail r
  std::int64_t stall_ns = 0;
  std::int32_t after_messages = 0;  ///< of rails_down and crash
  std::uint8_t crash = 0;
};

class Schedule {
 public:
  Schedule() = default;
  /// Throws Error{usage} where a fault makes no sense (negative time, factor <= 0, rail > 31).
  explicit Schedule(std::vector<Fault> faults);

  const std::vector<Fault>& faults() const { return faults_; }
  LinkCondition on_link(LinkId link, Way way, std::int64_t step) const;
  double compute_factor(StageId stage, std::int64_t step) const;

 private:
  std::vector<Fault> faults_;
};

/// The extra latency of one message: the constant part and its share of the jitter, which depends
/// on (link, step, microbatch) only.
std::int64_t latency_ns(const LinkCondition& condition, LinkId link, std::int64_t step,
                        MicrobatchId microbatch);

/// Reads one fault from text: the kind, then key=value, e.g.
///   "latency links=6 steps=10:20 ms=30 jitter_ms=5 way=forward"
///   "bandwidth mb_per_s=25", "rail_down links=0 rail=1 steps=3:5 after=2", "delegate_stall ms=50",
///   "delegate_crash links=0 steps=4:4", "slow_compute stages=2 factor=1.5".
/// Without links or stages it holds for all, without steps always; the last step is included.
/// Throws Error{usage}.
Fault parse_fault(const std::string& text);

/// Reads a PipeMorph trace: lines `iteration;i_j[,k_l...];seconds`, 0-based iteration, from which
/// on the links i-j have that latency both ways (0 heals); `iteration;;inf` is a dead NIC: rail 0
/// of every link from then on. Throws Error{usage} naming `name` and the line.
std::vector<Fault> read_trace(const std::string& text, const std::string& name);

}  // namespace adaptra::faults
