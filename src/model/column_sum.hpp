#pragma once
// Sums over the rows, added to gradients of biases and LayerNorms: first over fixed blocks of rows,
// then over the blocks in order, so that the bits do not depend on how the work is spread.

#include "device/rows.hpp"

namespace adaptra::model {

inline constexpr std::int64_t column_block_rows = 32;

inline std::int64_t column_blocks(std::int64_t rows) {
  return (rows + column_block_rows - 1) / column_block_rows;
}

/// gradient[c] += partial[block, c], block by block; `distance` from one block's sums to the next.
/// One team for some columns, so that a step has one kernel here and not one per block.
inline void add_blocks(const device::Exec& exec, std::int64_t blocks, int columns, int distance,
                       const float* partial, float* gradient) {
  constexpr int width = 256;
  device::for_rows(
      exec, "column_sum", (columns + width - 1) / width,
      KOKKOS_LAMBDA(const device::Team& team, std::int64_t tile) {
        const int begin = static_cast<int>(tile) * width;
        const int n = columns - begin < width ? columns - begin : width;
        float* target = gradient + begin;
        for (std::int64_t block = 0; block < blocks; ++block) {
          const float* sum = partial + block * distance + begin;
          device::row_for(team, n, [&](int c) { target[c] += sum[c]; });
        }
      });
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
  add_blocks(exec, blocks, columns, columns, partial, gradient);
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
  add_blocks(exec, blocks, channels, 2 * channels, partial, d_weight);
  add_blocks(exec, blocks, channels, 2 * channels, partial + channels, d_bias);
}

}  // namespace adaptra::model
