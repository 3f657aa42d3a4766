#pragma once
// The part of a GPT-2 model that one pipeline stage holds, with its gradients and optimizer state,
// and the three ops of a microbatch:
//   F  activations in, activations out; keeps what B needs;
//   B  gradient of the output in, gradient of the input out; keeps what W needs;
//   W  adds the weights' gradients and frees the microbatch.
// Biases and LayerNorms get their gradients in B, the head its weights' in F, while the logits
// exist. Ops only enqueue work on the stage's execution space; nothing in F, B, W, or the optimizer
// allocates, fences or copies between host and device.
//
// The same bits come out whatever the split into stages and whenever W runs: sums over microbatches
// are in the order of the microbatches (the plan keeps that order for B and for W), everything else
// has a fixed shape. Letters as in config.hpp. Local; one thread; device pointers.

#include "core/error.hpp"
#include "device/session.hpp"
#include "model/config.hpp"
#include "model/optimizer.hpp"
#include "model/parameters.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace adaptra::model {

/// How much a stage holds at most, as the plan needs it.
struct Capacity {
  int in_flight = 1;     ///< microbatches between the start of F and the end of W
  Blocks activations;    ///< the most held at once, see activation_blocks()
  int microbatches = 1;  ///< of a step, for the losses
};

/// Names a microbatch: `place` < Capacity::in_flight is where its statistics are kept, `index` <
/// Capacity::microbatches its number in the step, `key` its number in the global batch of all steps
/// (for dropout).
struct Microbatch {
  int place = 0;
  int index = 0;
  std::uint64_t key = 0;
};

class StageModel {
 public:
  /// Allocates everything. Throws Error{environment} where memory is short.
  static std::unique_ptr<StageModel> make(const Config& config, const StagePart& part,
                                          const Batch& batch, const Capacity& capacity);
  virtual ~StageModel() = default;

  virtual const Config& config() const = 0;
  virtual const StagePart& part() const = 0;
  virtual const Batch& batch() const = 0;
  virtual const device::Exec& exec() const = 0;

  /// Capacity::in_flight as reserved.
  virtual int in_flight() const = 0;

  /// Makes room for another plan, at a step border; the step's state is empty then.
  virtual void reserve(const Capacity& capacity) = 0;

  /// Clears gradients and losses.
  virtual void begin_step() = 0;

  /// Tokens [M] of a microbatch (stage with the embedding) and its targets [M] (stage with the
  /// head); before its F. Host memory.
  virtual void set_tokens(const Microbatch& microbatch, std::span<const std::int32_t> tokens,
                          std::span<const std::int32_t> targets) = 0;

  /// F. `input` [M,C] is unused with the embedding, `output` [M,C] with the head. The gradient of
  /// the loss is scaled by `loss_scale` = 1 / tokens of the global batch.
  virtual void forward(const Microbatch& microbatch, const void* input, void* output,
                       double loss_scale) = 0;
  /// B. `output_gradient` is unused with the head, `input_gradient` with the embedding.
  virtual void backward_input(const Microbatch& microbatch, const void* output_gradient,
                              void* input_gradient) = 0;
  /// W.
  virtual void backward_weight(const Microbatch& microbatch) = 0;

  /// F without dropout and without keeping anything: evaluation.
  virtual void evaluate(const Microbatch& microbatch, const void* input, void* output) = 0;

  /// Sums of the rows' losses per microbatch of the step, in order; waits for the device. Head
  /// only.
  virtual std::vector<double> losses() = 0;

  /// Tensors held, in model order, and the stage's flat buffers that their offsets refer to; device
  /// memory. Padding rows of wte are zero and stay zero.
  virtual const std::vector<Parameter>& parameters() const = 0;
  virtual std::span<float> weights() = 0;
  virtual std::span<float> gradients() = 0;
  virtual std::span<float> first_moments() = 0;
  virtual std::span<float> second_moments() = 0;
  /// To be called after weights() were written from outside (checkpoint, import).
  virtual void weights_changed() = 0;

  /// The tied embedding has two gradients, the embedding's and the head's, summed apart through the
  /// step. `own` is this stage's (inside gradients()); `other` is the other one: held here where
  /// the stage has both ends, to be received from the other end where not. add_tied() adds other to
  /// own. Empty spans where the stage has neither.
  virtual std::span<float> tied_own() = 0;
  virtual std::span<float> tied_other() = 0;
  virtual void add_tied() = 0;

  /// Sum of squares of each tensor's gradient, in the order of parameters(); waits for the device.
  /// Not finite where the gradient is not. wte is reported by the stage with the embedding only (0
  /// elsewhere).
  virtual std::vector<double> gradient_squares() = 0;

  /// One update of all weights held.
  virtual void update(const AdamW& adam) = 0;

  /// Waits until all work is done.
  virtual void finish() = 0;

  /// Bytes allocated by this object.
  virtual std::int64_t allocated_bytes() const = 0;
};

}  // namespace adaptra::model
