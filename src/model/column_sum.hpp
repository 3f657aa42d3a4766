#pragma once
// Sums over the rows, added to gradients of biases and LayerNorms: first over fixed blocks of rows,
// then over the blocks in order, so that the bits do not depend on how the work is spread.

#include "device/rows.hpp"

namespace adaptra::model {

inline constexpr std::int64_t column_block_rows = 32;

inline std::int64_t column_blocks(std::int64_t rows) {
  return (rows + column_block_rows - 1) / column_block_rows;
}

/// gradient[c] += sum over rows of dy[row, c]. partial: [column_blocks(rows), columns] scratch.
template <typename T>
void add_column_sum(const device::Exec& exec, std::int64_t rows, int columns, const T* dy,
                    float* partial, float* gradient) {
  const std::int64_t blocks = column_blocks(rows);
  device::for_rows(
      exec, "column_sum_blocks", blocks,
      KOKKOS_LAMBDA(const device::Team& team, std::int64_t block) {
        const std::int64_t begin = block * column_block_rows;
        const std::int64_t end =
            begin + column_block_rows < rows ? begin + column_block_rows : rows;
        float* sum = partial + block * columns;
        device::row_for(team, columns, [&](int c) { sum[c] = float(dy[begin * columns + c]); });
        for (std::int64_t row = begin + 1; row < end; ++row) {
          const T* line = dy + row * columns;
          device::row_for(team, columns, [&](int c) { sum[c] += float(line[c]); });
        }
      });
  for (std::int64_t block = 0; block < blocks; ++block) {
    const float* sum = partial + block * columns;
    device::for_each(
        exec, "column_sum", columns, KOKKOS_LAMBDA(std::int64_t c) { gradient[c] += sum[c]; });
  }
}

/// LayerNorm's own gradients: d_weight[c] += sum dy * xhat, d_bias[c] += sum dy.
/// partial: [column_blocks(rows), 2 C] scratch.
template <typename T>
void add_layernorm_gradients(const device::Exec& exec, std::int64_t rows, int channels, const T* dy,
                             const T* x, const float* mean, const float* rstd, float* partial,
                             float* d_weight, float* d_bias) {
  const std::int64_t blocks = column_blocks(rows);
  device::for_rows(
      exec, "layernorm_gradient_blocks", blocks,
      KOKKOS_LAMBDA(const device::Team& team, std::int64_t block) {
        const std::int64_t begin = block * column_block_rows;
        const std::int64_t end =
            begin + column_block_rows < rows ? begin + column_block_rows : rows;
        float* weight_sum = partial + block * 2 * channels;
        float* bias_sum = weight_sum + channels;
        device::row_for(team, channels, [&](int c) { weight_sum[c] = 0; });
        device::row_for(team, channels, [&](int c) { bias_sum[c] = 0; });
        for (std::int64_t row = begin; row < end; ++row) {
          const T* d = dy + row * channels;
          const T* in = x + row * channels;
          const float m = mean[row], r = rstd[row];
          device::row_for(team, channels, [&](int c) {
            const float value = float(d[c]);
            weight_sum[c] += value * ((float(in[c]) - m) * r);
            bias_sum[c] += value;
          });
        }
      });
  for (std::int64_t block = 0; block < blocks; ++block) {
    const float* weight_sum = partial + block * 2 * channels;
    const float* bias_sum = weight_sum + channels;
    device::for_each(
        exec, "layernorm_gradient", channels, KOKKOS_LAMBDA(std::int64_t c) {
          d_weight[c] += weight_sum[c];
          d_bias[c] += bias_sum[c];
        });
  }
}

}  // namespace adaptra::model
