#pragma once
// The search's own view of an order, made to be evaluated in about a microsecond.
//
// An order without its W is a table of leads: lead(i, k) = forwards of stage i before its B k. It
// can run if and only if
//   lead(i, k) >= k + 1, non-decreasing in k, at most N;
//   lead(i, k) >= lead(i + 1, k), else two stages wait for each other;
//   lead(i, k) - k <= what stage i can hold with no W outstanding.
// Given these, one fixed sequence of ops is topological for every table (round k: the forwards up
// to lead(i, k) from the first stage to the last, then B k from the last to the first), so the
// evaluation has no queue and no waiting, and a change at round k leaves earlier rounds as they
// are.
//
// W are put where they cost nothing: a W that fits into the wait for the next input runs there, a W
// that memory demands runs before the op that needs the room, the rest at the end. `extra` asks for
// more W before one op than that. Every order is dominated by one of this form.

#include "plan/order.hpp"
#include "plan/profile.hpp"

#include <cstdint>
#include <vector>

namespace adaptra::plan {

/// A candidate of the search. Index [stage * N + microbatch].
struct Candidate {
  std::vector<std::int32_t> lead;
  std::vector<std::uint8_t> extra_f;  ///< W asked for before F(i, k), beyond the rule
  std::vector<std::uint8_t> extra_b;  ///< W asked for before B(i, k), beyond the rule
};

/// What the search minimises: the makespan, and with a small weight the mean of the stages' ends,
/// which tells candidates of equal makespan apart.
struct Value {
  std::int64_t makespan_ns = 0;
  double cost = 0;  ///< makespan + mean end / 32
};

class Decoder {
 public:
  /// `in_flight_limit` 0: none. The profile must be valid and one microbatch must fit.
  Decoder(const Profile& profile, int in_flight_limit);

  int stages() const { return stages_; }
  int microbatches() const { return n_; }
  /// Most forwards of a stage that may wait for their B.
  int most_waiting(int stage) const { return cap_[static_cast<std::size_t>(stage)]; }

  /// Makes a candidate fit the rules above (lowers and raises leads where needed).
  void repair(Candidate& candidate) const;
  /// From an order of the whole pipeline; leads are repaired, W asked for where the order has them.
  Candidate from_order(const Order& order);
  Order to_order(const Candidate& candidate);

  /// Full evaluation; becomes the base of `try_from`.
  Value evaluate(const Candidate& candidate);
  /// Evaluates a candidate that differs from the base in rounds >= `round` only. Gives up, with
  /// cost > `give_up`, as soon as that is certain. The base stays as it is.
  Value try_from(const Candidate& candidate, int round, double give_up);
  /// The candidate of the last try_from becomes the base.
  void commit(const Candidate& candidate, int round);

  /// W run before each op: index [stage * N + microbatch].
  struct WeightCounts {
    std::vector<std::int32_t> before_f, before_b;
  };
  /// Where the last try_from(candidate, round) put its W.
  const WeightCounts& weights_of_trial(const Candidate& candidate, int round);
  /// Makespan of that very order under this decoder's profile (usually not the one it was made
  /// under); gives up as try_from does.
  std::int64_t replay(const Candidate& candidate, const WeightCounts& weights,
                      std::int64_t give_up_ns);

 private:
  // What a pass leaves behind, so that another can start in the middle.
  struct Tables {
    std::vector<std::int64_t> arrive_f;        // [S * N] when the input of F(i, k) came
    std::vector<std::int64_t> free;            // [N][S] when the stage was free before round k
    std::vector<std::int64_t> wire_f, wire_b;  // [N][S] likewise the wire of link i, of i - 1
    std::vector<std::int32_t> pending;         // [N][S] W outstanding before round k
    WeightCounts weights;
  };
  struct StageNow {
    std::int64_t free = 0;
    std::int64_t wire_f = 0;  // of link i
    std::int64_t wire_b = 0;  // of link i - 1
    std::int32_t pending = 0;
  };
  struct StageTimes {
    std::int64_t f = 0, b = 0, w = 0;
  };

  std::size_t index(int stage, int k) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(n_) +
           static_cast<std::size_t>(k);
  }
  template <bool plain_links>
  Value run(const Candidate& candidate, Tables& tables, int round, double give_up, Order* order);
  Value pass(const Candidate& candidate, Tables& tables, int round, double give_up, Order* order);

  int stages_;
  int n_;
  bool plain_links_ = true;  // no occupancy, nobody held
  std::vector<StageTimes> times_;
  std::vector<Link> links_;
  std::vector<int> cap_;
  // [stage][forwards waiting for B]: most W outstanding when F starts, when B starts.
  std::vector<std::vector<std::int32_t>> most_pending_f_, most_pending_b_;
  Tables base_, trial_;
  std::vector<StageNow> now_;
};

}  // namespace adaptra::plan
