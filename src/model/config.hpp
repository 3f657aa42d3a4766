#pragma once
// The shape of a GPT-2 model (Radford et al. 2019: pre-LayerNorm, causal attention, GELU in its
// tanh form, learned positions, head tied to the token embedding), of one stage of it, and what
// both cost; all in closed form, nothing is allocated here. Letters: B sequences, T tokens, C
// channels, H heads, V vocabulary, L layers, M = B T rows.

#include <cstdint>
#include <string>
#include <vector>

namespace adaptra::model {

enum class Precision { fp32, bf16 };

struct Config {
  int layers = 12;
  int channels = 768;
  int heads = 12;
  int vocabulary = 50257;
  int context_tokens = 1024;
  Precision precision = Precision::fp32;
  double dropout = 0;  ///< probability, at the embedding, both residuals and the attention weights
  std::uint64_t seed = 1;  ///< of the initial weights and of the dropout masks

  int head_channels() const { return channels / heads; }
  /// Rows of the embedding as stored: a multiple of 128, for the matrix units.
  int padded_vocabulary() const { return (vocabulary + 127) / 128 * 128; }
  std::size_t element_bytes() const { return precision == Precision::fp32 ? 4 : 2; }
};

/// The layers and ends that one stage holds.
struct StagePart {
  int first_layer = 0;
  int layers = 0;
  bool embedding = false;
  bool head = false;
};

/// One microbatch: B sequences of T tokens.
struct Batch {
  int sequences = 1;
  int tokens = 1;
  std::int64_t rows() const { return std::int64_t{sequences} * tokens; }
};

/// Parameters of the whole model; the tied embedding counts once, padding not at all.
std::int64_t parameter_count(const Config& config);
/// Parameters that a stage holds (a stage with only the head holds a copy of the embedding).
std::int64_t parameter_count(const Config& config, const StagePart& part);

/// Multiply-adds x 2 of one token, forward and backward, attention at full context T included.
double flops_per_token(const Config& config, int tokens);

/// Relative work of F, B and W of a stage for one microbatch, in floating-point operations.
struct StageWork {
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
  double total() const { return forward + backward_input + backward_weight; }
};
StageWork work_of(const Config& config, const StagePart& part, const Batch& batch);

/// Splits the layers over `stages` so that the most loaded stage has the least work; embedding and
/// head count. Every stage has at least one layer. Throws Error{usage} where layers < stages.
std::vector<StagePart> split_layers(const Config& config, int stages, const Batch& batch);

/// Activation memory in blocks of [M,C], [M,3C] and [M,4C] elements of the model's precision.
struct Blocks {
  int one = 0;
  int three = 0;
  int four = 0;

  /// In units of M x C elements.
  std::int64_t units() const { return one + 3 * std::int64_t{three} + 4 * std::int64_t{four}; }
  friend Blocks operator+(Blocks a, Blocks b) {
    return {a.one + b.one, a.three + b.three, a.four + b.four};
  }
  friend Blocks operator-(Blocks a, Blocks b) {
    return {a.one - b.one, a.three - b.three, a.four - b.four};
  }
  friend Blocks max(Blocks a, Blocks b) {
    return {a.one > b.one ? a.one : b.one, a.three > b.three ? a.three : b.three,
            a.four > b.four ? a.four : b.four};
  }
  friend bool operator==(const Blocks&, const Blocks&) = default;
};

/// What one microbatch holds on a stage.
struct ActivationBlocks {
  Blocks after_forward;    ///< from F to B: 10 units per layer
  Blocks during_backward;  ///< the most while B runs
  Blocks after_backward;   ///< from B to W: 16 units per layer
};
ActivationBlocks activation_blocks(const StagePart& part);

/// Bytes of one stage, as allocated.
struct StageMemory {
  std::int64_t weights = 0;  ///< fp32 master weights, and their bf16 copies
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t workspace = 0;  ///< whatever runs: tiles of attention and head, GEMM scratch
  std::int64_t block = 0;      ///< one activation block
  std::int64_t statistics =
      0;  ///< per microbatch in flight: LayerNorm, attention and loss statistics, tokens
  std::int64_t message = 0;  ///< one activation or gradient on a link

  std::int64_t fixed() const { return weights + gradients + optimizer + workspace; }
  /// What one microbatch holds between F and B, and between B and W.
  std::int64_t activation(const ActivationBlocks& blocks) const {
    return blocks.after_forward.units() * block + statistics;
  }
  std::int64_t activation_after_b(const ActivationBlocks& blocks) const {
    return blocks.after_backward.units() * block + statistics;
  }
};
StageMemory memory_of(const Config& config, const StagePart& part, const Batch& batch);

}  // namespace adaptra::model
