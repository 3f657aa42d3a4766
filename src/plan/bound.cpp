#include "plan/bound.hpp"

#include <algorithm>

namespace adaptra::plan {
namespace {

// At most this many microbatches can be in flight (F started, W not ended) on a stage.
std::int64_t most_in_flight(const Profile& p, std::size_t i, int in_flight_limit) {
  std::int64_t most = p.microbatches;
  if (in_flight_limit > 0) most = std::min<std::int64_t>(most, in_flight_limit);
  const std::int64_t least_bytes = std::min(p.activation_bytes[i], p.activation_bytes_after_b[i]);
  if (p.memory_limit_bytes[i] != unlimited_bytes && least_bytes > 0) {
    most = std::min(most, std::max<std::int64_t>(
                              1, (p.memory_limit_bytes[i] - p.workspace_bytes[i]) / least_bytes));
  }
  return most;
}

}  // namespace

// Stage i starts its first F at head_i at the earliest and its first B at first_b_i, before which
// at most P forwards can have started. After the last B either the gradients travel to stage 0
// (tail_i) or the last W run, which at most P microbatches can have left for then.
LowerBound lower_bound(const Profile& p, int in_flight_limit) {
  const auto stages = static_cast<std::size_t>(p.stages);
  const std::int64_t n = p.microbatches;
  std::vector<std::int64_t> head(stages, 0);        // first F of stage i
  std::vector<std::int64_t> first_back(stages, 0);  // first B of stage i
  std::vector<std::int64_t> tail(stages, 0);        // after the last B of stage i
  for (std::size_t i = 1; i < stages; ++i) {
    const Link& link = p.links[i - 1];
    head[i] = head[i - 1] + p.forward_ns[i - 1] + link.forward_occupancy_ns + link.forward_delay_ns;
    tail[i] = tail[i - 1] + p.backward_input_ns[i - 1] + link.backward_occupancy_ns +
              link.backward_delay_ns + (i == 1 ? p.backward_weight_ns[0] : 0);
  }
  first_back[stages - 1] = head[stages - 1] + p.forward_ns[stages - 1];
  for (std::size_t i = stages - 1; i-- > 0;) {
    first_back[i] = first_back[i + 1] + p.backward_input_ns[i + 1] +
                    p.links[i].backward_occupancy_ns + p.links[i].backward_delay_ns;
  }
  LowerBound bound;
  for (std::size_t i = 0; i < stages; ++i) {
    const std::int64_t most = most_in_flight(p, i, in_flight_limit);
    const std::int64_t idle =
        std::max<std::int64_t>(0, first_back[i] - head[i] - most * p.forward_ns[i]);
    bound.stage_ns.push_back(head[i] + idle + n * (p.forward_ns[i] + p.backward_input_ns[i]) +
                             (n - most) * p.backward_weight_ns[i] +
                             std::max(tail[i], most * p.backward_weight_ns[i]));
  }
  for (std::size_t i = 0; i + 1 < stages; ++i) {
    const Link& link = p.links[i];
    // Down: the last message has arrived, then one F, and its gradient's way back from there.
    const std::int64_t after_down = link.forward_delay_ns + p.forward_ns[i + 1] +
                                    (first_back[i + 1] - head[i + 1] - p.forward_ns[i + 1]) +
                                    p.backward_input_ns[i + 1] +
                                    std::max(tail[i + 1], p.backward_weight_ns[i + 1]);
    bound.forward_ns.push_back(head[i] + p.forward_ns[i] + n * link.forward_occupancy_ns +
                               after_down);
    const std::int64_t after_up = link.backward_delay_ns + p.backward_input_ns[i] +
                                  std::max(tail[i], p.backward_weight_ns[i]);
    bound.backward_ns.push_back(first_back[i + 1] + p.backward_input_ns[i + 1] +
                                n * link.backward_occupancy_ns + after_up);
  }
  for (const auto* values : {&bound.stage_ns, &bound.forward_ns, &bound.backward_ns}) {
    for (const std::int64_t value : *values) bound.makespan_ns = std::max(bound.makespan_ns, value);
  }
  return bound;
}

}  // namespace adaptra::plan
