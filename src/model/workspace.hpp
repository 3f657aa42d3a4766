#pragma once
// Scratch and per-microbatch statistics of a stage: their sizes are stated once, here, for the
// closed form of memory_of() and for the allocation in StageModel.

#include "device/gemm.hpp"
#include "model/config.hpp"

#include <cstdint>

namespace adaptra::model {

/// Elements of each scratch array.
struct WorkspaceSizes {
  // in the storage type of the model
  std::int64_t wide = 0;            ///< [M, 4C]
  std::int64_t narrow = 0;          ///< [M, C], three of them
  std::int64_t attention_tile = 0;  ///< twice; only where the storage type is not float
  std::int64_t d_logits = 0;        ///< only where the storage type is not float
  // float
  std::int64_t attention_scores = 0;  ///< twice
  std::int64_t attention_accumulator = 0;
  std::int64_t column_partial = 0;
  std::int64_t logits = 0;
  std::int64_t row_loss = 0;
  device::Gemm::Scratch gemm;

  static WorkspaceSizes of(const Config& config, const StagePart& part, const Batch& batch);
  std::int64_t bytes(const Config& config) const;
};

/// Per microbatch in flight, in elements.
struct StatisticsSizes {
  std::int64_t floats = 0;    ///< per layer 4 M + H M; head 2 M
  std::int64_t integers = 0;  ///< tokens and their groups, targets

  static StatisticsSizes of(const Config& config, const StagePart& part, const Batch& batch);
  std::int64_t bytes() const { return 4 * (floats + integers); }
};

inline std::int64_t workspace_bytes(const Config& config, const StagePart& part,
                                    const Batch& batch) {
  return WorkspaceSizes::of(config, part, batch).bytes(config);
}
inline std::int64_t statistics_bytes(const Config& config, const StagePart& part,
                                     const Batch& batch) {
  return StatisticsSizes::of(config, part, batch).bytes();
}

}  // namespace adaptra::model
