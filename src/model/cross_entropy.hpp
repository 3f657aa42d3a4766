#pragma once
// Softmax and cross entropy over the vocabulary, for a chunk of rows at a time, so that the logits
// of a whole microbatch never exist. Columns from V to Vp are padding: masked out, with gradient 0.
// Shapes: logits [rows, Vp] float; d_logits [rows, Vp], may be the same memory where T is float.

#include "device/math.hpp"
#include "device/rows.hpp"

#include <cmath>

namespace adaptra::model {

/// Rows of a chunk: logits of about 64 MiB, a function of the shape alone.
inline std::int64_t head_chunk_rows(std::int64_t rows, std::int64_t padded_vocabulary) {
  constexpr std::int64_t logits_bytes = 64 << 20;
  const std::int64_t fitting = logits_bytes / (4 * padded_vocabulary) / 32 * 32;
  return std::min(rows, std::max<std::int64_t>(32, fitting));
}

/// loss[row] = log of the sum of exponentials - logit of the target: evaluation.
inline void cross_entropy(const device::Exec& exec, std::int64_t rows, int vocabulary, int padded,
                          const float* logits, const std::int32_t* targets, float* loss) {
  device::for_rows(
      exec, "cross_entropy", rows, KOKKOS_LAMBDA(const device::Team& team, std::int64_t row) {
        const float* line = logits + row * padded;
        const float top = device::row_max(team, vocabulary, [&](int v) { return line[v]; });
        const float sum = device::row_sum(team, vocabulary,
                                          [&](int v) { return device::exp_fast(line[v] - top); });
        if (team.team_rank() == 0) loss[row] = top + logf(sum) - line[targets[row]];
      });
}

/// The loss, and d_logits = (softmax - one_hot(target)) * scale with 0 in the padding: training.
/// The exponentials are formed once, in place of the logits.
template <typename T>
void cross_entropy_gradient(const device::Exec& exec, std::int64_t rows, int vocabulary, int padded,
                            float* logits, const std::int32_t* targets, float scale, float* loss,
                            T* d_logits) {
  device::for_rows(
      exec, "cross_entropy_gradient", rows,
      KOKKOS_LAMBDA(const device::Team& team, std::int64_t row) {
        float* line = logits + row * padded;
        T* out = d_logits + row * padded;
        const int target = targets[row];
        const float at_target = line[target];
        const float top = device::row_max(team, vocabulary, [&](int v) { return line[v]; });
        team.team_barrier();
        const float sum = device::row_sum(team, vocabulary, [&](int v) {
          const float e = device::exp_fast(line[v] - top);
          line[v] = e;
          return e;
        });
        team.team_barrier();
        device::row_for(team, vocabulary, [&](int v) { out[v] = T(line[v] / sum * scale); });
        device::row_for(team, padded - vocabulary, [&](int v) { out[vocabulary + v] = T(0.0F); });
        team.team_barrier();
        if (team.team_rank() == 0) {
          out[target] = T((device::exp_fast(at_target - top) / sum - 1.0F) * scale);
          loss[row] = top + logf(sum) - at_target;
        }
      });
}

/// total[place] = sum of the rows' losses, in double, row by row blocks in fixed order.
inline void sum_losses(const device::Exec& exec, std::int64_t rows, const float* loss,
                       double* total) {
  device::for_rows(
      exec, "sum_losses", 1, KOKKOS_LAMBDA(const device::Team& team, std::int64_t) {
        const double sum = device::row_sum<double>(team, static_cast<int>(rows),
                                                   [&](int i) { return double(loss[i]); });
        if (team.team_rank() == 0) *total = sum;
      });
}

}  // namespace adaptra::model
