#pragma once
// Causal attention in tiles of query rows: the scores of one tile at a time, so that nothing of
// size T x T is kept from F to B, only the log of the sum of exponentials of each row (as in
// FlashAttention-2, Dao 2023); columns after a tile's last row are not computed. Matrix products go
// through gemm(). Shapes: qkv [M, 3C] as q | k | v with heads side by side; out, d_out [M, C]; lse
// [B, H, T].

#include "device/gemm.hpp"
#include "device/rows.hpp"
#include "model/config.hpp"
#include "model/elementwise.hpp"

#include <cmath>

namespace adaptra::model {

inline constexpr int attention_tile_rows = 64;

/// Heads of a sequence that one product handles: all of them on a GPU; one on the host, where its
/// tile of scores then stays in the cache.
inline int attention_heads_at_once(const Config& config) {
  return device::host_accessible ? 1 : config.heads;
}

/// Scratch of both directions, in elements.
struct AttentionScratchSizes {
  std::int64_t tile = 0;         ///< scores of one tile: heads x rows x T
  std::int64_t accumulator = 0;  ///< gradients of k and v: heads x T x 2 head channels

  static AttentionScratchSizes of(const Config& config, const Batch& batch) {
    const std::int64_t heads = attention_heads_at_once(config);
    const std::int64_t rows = std::min(attention_tile_rows, batch.tokens);
    return {heads * rows * batch.tokens, heads * batch.tokens * 2 * config.head_channels()};
  }
};

template <typename T>
struct AttentionScratch {
  float* scores = nullptr;       ///< [tile]
  float* d_weights = nullptr;    ///< [tile], backward only
  T* weights = nullptr;          ///< [tile]; where T is float this is `scores`
  T* d_scores = nullptr;         ///< [tile]; where T is float this is `d_weights`
  float* accumulator = nullptr;  ///< [accumulator]
};

/// One group of heads of one sequence, and one tile of its query rows.
struct AttentionTile {
  std::int64_t first_row = 0;  ///< row in qkv of the sequence's first token
  int sequence = 0, first_head = 0, heads = 0;
  int begin = 0, rows = 0;  ///< query rows of the tile
  int columns() const { return begin + rows; }
};

template <typename Visit>
void for_each_tile(const Config& config, const Batch& batch, const Visit& visit) {
  const int at_once = attention_heads_at_once(config);
  for (int b = 0; b < batch.sequences; ++b) {
    for (int h = 0; h < config.heads; h += at_once) {
      for (int t = 0; t < batch.tokens; t += attention_tile_rows) {
        visit(AttentionTile{std::int64_t{b} * batch.tokens, b, h, at_once, t,
                            std::min(attention_tile_rows, batch.tokens - t)});
      }
    }
  }
}

/// weights = softmax over the causal columns of scores * scale, 0 elsewhere in the tile; keeps lse.
template <typename T>
void tile_softmax(const device::Exec& exec, const Config& config, const Batch& batch,
                  const AttentionTile& tile, const float* scores, const Dropout& dropout,
                  T* weights, float* lse) {
  const float scale = 1.0F / std::sqrt(static_cast<float>(config.head_channels()));
  const int columns = tile.columns(), rows = tile.rows, begin = tile.begin, tokens = batch.tokens;
  const std::int64_t first_head = std::int64_t{tile.sequence} * config.heads + tile.first_head;
  device::for_rows(
      exec, "attention_softmax", std::int64_t{tile.heads} * rows,
      KOKKOS_LAMBDA(const device::Team& team, std::int64_t row) {
        const std::int64_t head = first_head + row / rows;
        const int query = begin + static_cast<int>(row % rows);
        const int valid = query + 1;
        const float* s = scores + row * columns;
        T* w = weights + row * columns;
        const float top = device::row_max(team, valid, [&](int j) { return s[j]; }) * scale;
        const float sum = device::row_sum(
            team, valid, [&](int j) { return device::exp_fast(s[j] * scale - top); });
        const float log_sum = top + logf(sum);
        team.team_barrier();
        const std::uint64_t element = (static_cast<std::uint64_t>(head) * tokens + query) * tokens;
        device::row_for(team, valid, [&](int j) {
          w[j] = T(device::exp_fast(s[j] * scale - log_sum) * dropout.factor(element + j));
        });
        device::row_for(team, columns - valid, [&](int j) { w[valid + j] = T(0.0F); });
        if (team.team_rank() == 0) lse[head * tokens + query] = log_sum;
      });
}

/// From scores and d_weights (gradient of the dropped-out weights): weights again, and the gradient
/// of the scores, scaled for the products with k and q.
template <typename T>
void tile_softmax_backward(const device::Exec& exec, const Config& config, const Batch& batch,
                           const AttentionTile& tile, const float* scores, const float* d_weights,
                           const T* out, const T* d_out, const float* lse, const Dropout& dropout,
                           T* weights, T* d_scores) {
  const float scale = 1.0F / std::sqrt(static_cast<float>(config.head_channels()));
  const int columns = tile.columns(), rows = tile.rows, begin = tile.begin, tokens = batch.tokens;
  const int channels = config.channels, width = config.head_channels();
  const std::int64_t first_head = std::int64_t{tile.sequence} * config.heads + tile.first_head;
  const std::int64_t first_row = tile.first_row;
  const int first_channel = tile.first_head * width;
  device::for_rows(
      exec, "attention_softmax_backward", std::int64_t{tile.heads} * rows,
      KOKKOS_LAMBDA(const device::Team& team, std::int64_t row) {
        const std::int64_t local_head = row / rows;
        const std::int64_t head = first_head + local_head;
        const int query = begin + static_cast<int>(row % rows);
        const int valid = query + 1;
        const float* s = scores + row * columns;
        const float* dw = d_weights + row * columns;
        T* w = weights + row * columns;
        T* ds = d_scores + row * columns;
        const std::int64_t place =
            (first_row + query) * channels + first_channel + local_head * width;
        // Sum over the row of weight times its gradient, by way of the output (Dao 2023).
        const float delta = device::row_sum(
            team, width, [&](int c) { return float(out[place + c]) * float(d_out[place + c]); });
        const float log_sum = lse[head * tokens + query];
        const std::uint64_t element = (static_cast<std::uint64_t>(head) * tokens + query) * tokens;
        device::row_for(team, valid, [&](int j) {
          const float p = device::exp_fast(s[j] * scale - log_sum);
          const float keep = dropout.factor(element + j);
          const float d = dw[j];
          w[j] = T(p * keep);
          ds[j] = T(p * (keep * d - delta) * scale);
        });
        device::row_for(team, columns - valid, [&](int j) {
          w[valid + j] = T(0.0F);
          ds[valid + j] = T(0.0F);
        });
      });
}

/// d_qkv's k and v of a sequence's heads from their float sums [heads, T, head channels]; target is
/// the k of the first head at the first token.
template <typename T>
void store_key_value_gradients(const device::Exec& exec, const Config& config, const Batch& batch,
                               std::int64_t heads, const float* dk, const float* dv, T* target) {
  const std::int64_t channels = config.channels;
  const int tokens = batch.tokens, width = config.head_channels();
  device::for_rows(
      exec, "attention_store", heads * tokens,
      KOKKOS_LAMBDA(const device::Team& team, std::int64_t row) {
        const std::int64_t head = row / tokens, token = row % tokens;
        T* line = target + token * 3 * channels + head * width;
        const float* from_k = dk + row * width;
        const float* from_v = dv + row * width;
        device::row_for(team, width, [&](int j) { line[j] = T(from_k[j]); });
        device::row_for(team, width, [&](int j) { line[channels + j] = T(from_v[j]); });
      });
}

template <typename T>
void attention_forward(const device::Exec& exec, const device::Gemm& gemm, const Config& config,
                       const Batch& batch, const T* qkv, const Dropout& dropout,
                       const AttentionScratch<T>& scratch, T* out, float* lse) {
  using device::Matrix;
  using device::Trans;
  const std::int64_t c = config.channels, width = config.head_channels();
  for_each_tile(config, batch, [&](const AttentionTile& tile) {
    const T* q = qkv + (tile.first_row + tile.begin) * 3 * c + tile.first_head * width;
    const T* k = qkv + tile.first_row * 3 * c + c + tile.first_head * width;
    const T* v = k + c;
    const std::int64_t columns = tile.columns(), area = tile.rows * columns;
    gemm.run<T, float>(Trans::no, Trans::yes, {tile.rows, columns, width, tile.heads}, 1.0F,
                       {q, 3 * c, width}, {k, 3 * c, width}, 0.0F, {scratch.scores, columns, area});
    tile_softmax(exec, config, batch, tile, scratch.scores, dropout, scratch.weights, lse);
    gemm.run<T, T>(Trans::no, Trans::no, {tile.rows, width, columns, tile.heads}, 1.0F,
                   {scratch.weights, columns, area}, {v, 3 * c, width}, 0.0F,
                   {out + (tile.first_row + tile.begin) * c + tile.first_head * width, c, width});
  });
}

/// d_qkv from d_out.
template <typename T>
void attention_backward(const device::Exec& exec, const device::Gemm& gemm, const Config& config,
                        const Batch& batch, const T* qkv, const T* out, const T* d_out,
                        const float* lse, const Dropout& dropout,
                        const AttentionScratch<T>& scratch, T* d_qkv) {
  using device::Matrix;
  using device::Trans;
  const std::int64_t c = config.channels, width = config.head_channels();
  const std::int64_t pair = std::int64_t{batch.tokens} * width;  // one head's dk or dv
  for_each_tile(config, batch, [&](const AttentionTile& tile) {
    const std::int64_t at_head = tile.first_head * width;
    const T* q = qkv + (tile.first_row + tile.begin) * 3 * c + at_head;
    const T* k = qkv + tile.first_row * 3 * c + c + at_head;
    const T* v = k + c;
    const T* d_o = d_out + (tile.first_row + tile.begin) * c + at_head;
    const std::int64_t columns = tile.columns(), area = tile.rows * columns;
    float* dk = scratch.accumulator;
    float* dv = scratch.accumulator + tile.heads * pair;
    gemm.run<T, float>(Trans::no, Trans::yes, {tile.rows, columns, width, tile.heads}, 1.0F,
                       {q, 3 * c, width}, {k, 3 * c, width}, 0.0F, {scratch.scores, columns, area});
    gemm.run<T, float>(Trans::no, Trans::yes, {tile.rows, columns, width, tile.heads}, 1.0F,
                       {d_o, c, width}, {v, 3 * c, width}, 0.0F,
                       {scratch.d_weights, columns, area});
    tile_softmax_backward(exec, config, batch, tile, scratch.scores, scratch.d_weights, out, d_out,
                          lse, dropout, scratch.weights, scratch.d_scores);
    gemm.run<T, T>(Trans::no, Trans::no, {tile.rows, width, columns, tile.heads}, 1.0F,
                   {scratch.d_scores, columns, area}, {k, 3 * c, width}, 0.0F,
                   {d_qkv + (tile.first_row + tile.begin) * 3 * c + at_head, 3 * c, width});
    if (tile.begin == 0) device::clear(exec, scratch.accumulator, 2 * tile.heads * pair);
    gemm.run<T, float>(Trans::yes, Trans::no, {columns, width, tile.rows, tile.heads}, 1.0F,
                       {scratch.d_scores, columns, area}, {q, 3 * c, width}, 1.0F,
                       {dk, width, pair});
    gemm.run<T, float>(Trans::yes, Trans::no, {columns, width, tile.rows, tile.heads}, 1.0F,
                       {scratch.weights, columns, area}, {d_o, c, width}, 1.0F, {dv, width, pair});
    if (tile.columns() == batch.tokens) {  // the last tile: every row has its gradient
      store_key_value_gradients(exec, config, batch, tile.heads, dk, dv,
                                d_qkv + tile.first_row * 3 * c + c + at_head);
    }
  });
}

}  // namespace adaptra::model
