#include "plan/bound.hpp"

#include <algorithm>

namespace adaptra::plan {
namespace {

// The most that a stage can hold at once, each alone.
struct Holds {
  std::int64_t in_flight = 0;  // forwards started minus W ended
  std::int64_t waiting_b = 0;  // forwards whose B has not started
  std::int64_t waiting_w = 0;  // B ended whose W has not
};

Holds most_held(const Profile& p, std::size_t i, int in_flight_limit) {
  std::int64_t count = p.microbatches;
  if (in_flight_limit > 0) count = std::min<std::int64_t>(count, in_flight_limit);
  Holds holds{count, count, count};
  if (p.memory_limit_bytes[i] == unlimited_bytes) return holds;
  const std::int64_t before = p.activation_bytes[i];
  const std::int64_t after = p.activation_bytes_after_b[i];
  const std::int64_t room = p.memory_limit_bytes[i] - p.workspace_bytes[i];
  const auto fit = [&](std::int64_t space, std::int64_t size) {
    return size == 0 ? count : std::clamp<std::int64_t>(space / size, 0, count);
  };
  const std::int64_t beside_b = room - std::max(before, after);
  holds.in_flight = std::max<std::int64_t>(1, fit(room, std::min(before, after)));
  holds.waiting_b =
      std::max<std::int64_t>(1, std::min(fit(room, before), fit(beside_b, before) + 1));
  holds.waiting_w = std::clamp<std::int64_t>(fit(beside_b, after) + 1, 1, count);
  return holds;
}

// Times that follow from latencies alone.
struct Paths {
  std::vector<std::int64_t> head;    // [S] start of the first F of stage i
  std::vector<std::int64_t> around;  // [S] start of F(i,k) to start of B(i,k)
  std::vector<std::int64_t> tail;    // [S] end of the last B of stage i to the end of the step
};

Paths shortest_paths(const Profile& p) {
  const auto stages = static_cast<std::size_t>(p.stages);
  Paths paths{std::vector<std::int64_t>(stages, 0), std::vector<std::int64_t>(stages, 0),
              std::vector<std::int64_t>(stages, 0)};
  for (std::size_t i = 1; i < stages; ++i) {
    const Link& link = p.links[i - 1];
    paths.head[i] =
        paths.head[i - 1] + p.forward_ns[i - 1] + link.forward_occupancy_ns + link.forward_delay_ns;
    // The gradient goes on upwards; each stage it passes still has that microbatch's W to do.
    paths.tail[i] = link.backward_occupancy_ns + link.backward_delay_ns +
                    p.backward_input_ns[i - 1] +
                    std::max(paths.tail[i - 1], p.backward_weight_ns[i - 1]);
  }
  paths.around[stages - 1] = p.forward_ns[stages - 1];
  for (std::size_t i = stages - 1; i-- > 0;) {
    const Link& link = p.links[i];
    paths.around[i] = p.forward_ns[i] + link.forward_occupancy_ns + link.forward_delay_ns +
                      paths.around[i + 1] + p.backward_input_ns[i + 1] +
                      link.backward_occupancy_ns + link.backward_delay_ns;
  }
  return paths;
}

// Least time of stage i from the start of an F, with r microbatches from that one on to do: B of
// the first comes `around` later, before which only so many F can run; after the last B either the
// gradient travels on or the W run that are left.
std::int64_t from_start_of_f(const Profile& p, const Paths& paths, const Holds& holds,
                             std::size_t i, std::int64_t r) {
  const std::int64_t f = std::min(r, holds.waiting_b);
  const std::int64_t w = std::min(r, holds.waiting_w);
  const std::int64_t idle = std::max<std::int64_t>(0, paths.around[i] - f * p.forward_ns[i]);
  return idle + r * (p.forward_ns[i] + p.backward_input_ns[i]) + (r - w) * p.backward_weight_ns[i] +
         std::max(paths.tail[i], w * p.backward_weight_ns[i]);
}

// With K in flight F(i,k+K) waits for W(i,k), so every K-th forward is at least one whole stay of a
// microbatch apart. The chain may begin at any of the first K forwards. Likewise for forwards that
// wait for their B.
std::int64_t stage_bound(const Profile& p, const Paths& paths, const Holds& holds, std::size_t i) {
  const std::int64_t n = p.microbatches;
  std::int64_t best = paths.head[i] + from_start_of_f(p, paths, holds, i, n);
  const std::int64_t until_b = paths.around[i] + p.backward_input_ns[i];
  const std::pair<std::int64_t, std::int64_t> chains[] = {
      {holds.in_flight, until_b + p.backward_weight_ns[i]}, {holds.waiting_b, until_b}};
  for (const auto& [apart, stay] : chains) {
    for (std::int64_t j = 0; j < std::min(apart, n); ++j) {
      const std::int64_t links = (n - 1 - j) / apart;
      if (links == 0) continue;
      best = std::max(best, paths.head[i] + j * p.forward_ns[i] + links * stay +
                                from_start_of_f(p, paths, holds, i, n - j - links * apart));
    }
  }
  return best;
}

}  // namespace

LowerBound lower_bound(const Profile& p, int in_flight_limit) {
  const auto stages = static_cast<std::size_t>(p.stages);
  const std::int64_t n = p.microbatches;
  const Paths paths = shortest_paths(p);
  LowerBound bound;
  std::int64_t work = 0;
  for (std::size_t i = 0; i < stages; ++i) {
    bound.stage_ns.push_back(stage_bound(p, paths, most_held(p, i, in_flight_limit), i));
    work = std::max(work, bound.stage_ns.back());
  }
  bound.makespan_ns = work;
  for (std::size_t i = 0; i + 1 < stages; ++i) {
    const Link& link = p.links[i];
    // The first message leaves when its op has ended, then all of them use the wire; what follows
    // the last one is its own way to the end of the step.
    const std::int64_t after_down = link.forward_delay_ns + paths.around[i + 1] +
                                    p.backward_input_ns[i + 1] +
                                    std::max(paths.tail[i + 1], p.backward_weight_ns[i + 1]);
    const std::int64_t after_up = link.backward_delay_ns + p.backward_input_ns[i] +
                                  std::max(paths.tail[i], p.backward_weight_ns[i]);
    bound.forward_ns.push_back(paths.head[i] + p.forward_ns[i] + n * link.forward_occupancy_ns +
                               after_down);
    bound.backward_ns.push_back(paths.head[i + 1] + paths.around[i + 1] +
                                p.backward_input_ns[i + 1] + n * link.backward_occupancy_ns +
                                after_up);
    bound.makespan_ns =
        std::max({bound.makespan_ns, bound.forward_ns.back(), bound.backward_ns.back()});
  }
  for (std::size_t i = 0; i + 1 < stages; ++i) {
    const int at = static_cast<int>(i);
    if (bound.forward_ns[i] > work) {
      bound.bandwidth_bound.push_back({at, BandwidthBound::Direction::forward});
    }
    if (bound.backward_ns[i] > work) {
      bound.bandwidth_bound.push_back({at, BandwidthBound::Direction::backward});
    }
  }
  return bound;
}

}  // namespace adaptra::plan
