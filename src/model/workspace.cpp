#include "model/workspace.hpp"

#include "model/attention.hpp"
#include "model/column_sum.hpp"
#include "model/cross_entropy.hpp"

#include <algorithm>

namespace adaptra::model {

WorkspaceSizes WorkspaceSizes::of(const Config& config, const StagePart& part, const Batch& batch) {
  const std::int64_t m = batch.rows(), c = config.channels;
  const bool narrow_type = config.precision != Precision::fp32;
  const auto attention = AttentionScratchSizes::of(config, batch);
  WorkspaceSizes sizes;
  sizes.wide = 4 * m * c;
  sizes.narrow = m * c;
  sizes.attention_tile = narrow_type ? attention.tile : 0;
  sizes.attention_scores = attention.tile;
  sizes.attention_accumulator = attention.accumulator;
  sizes.column_partial = column_blocks(m) * 4 * c;
  const std::int64_t chunk =
      part.head ? head_chunk_rows(m, config.padded_vocabulary()) * config.padded_vocabulary() : 0;
  sizes.logits = chunk;
  sizes.d_logits = narrow_type ? chunk : 0;
  sizes.row_loss = part.head ? m : 0;
  if (narrow_type && device::Gemm::Scratch::needed) {
    sizes.gemm.a = std::max({4 * m * c, attention.tile, chunk});
    // B: a weight at a time, or at least a few columns of the largest k.
    sizes.gemm.b = std::max(
        {4 * c * c, 4 * m * c, part.head ? 64 * std::int64_t{config.padded_vocabulary()} : 0});
    sizes.gemm.c = 4 * m * c;
  }
  return sizes;
}

std::int64_t WorkspaceSizes::bytes(const Config& config) const {
  const auto element = static_cast<std::int64_t>(config.element_bytes());
  return element * (wide + 3 * narrow + 2 * attention_tile + d_logits) +
         4 * (2 * attention_scores + attention_accumulator + column_partial + logits + row_loss) +
         gemm.bytes();
}

StatisticsSizes StatisticsSizes::of(const Config& config, const StagePart& part,
                                    const Batch& batch) {
  const std::int64_t m = batch.rows();
  StatisticsSizes sizes;
  sizes.floats = part.layers * m * (4 + config.heads) + (part.head ? 2 * m : 0);
  sizes.integers = (part.embedding ? 4 * m + 1 : 0) + (part.head ? m : 0);
  return sizes;
}

}  // namespace adaptra::model
