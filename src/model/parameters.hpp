#pragma once
// The parameters that a stage holds: one flat buffer each for master weights, gradients and the two
// moments of Adam, and the list of tensors in it, named and shaped as in the Hugging Face GPT-2
// files (linear weights are [in, out]).

#include "device/session.hpp"
#include "model/config.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace adaptra::model {

/// How a tensor is initialised.
enum class Initial { zero, one, normal, residual };  ///< residual: normal / sqrt(2 L)

struct Parameter {
  std::string name;                 ///< e.g. "h.3.attn.c_attn.weight"
  std::vector<std::int64_t> shape;  ///< logical, without padding
  int index = 0;                    ///< place in the order of the whole model
  bool decayed = false;             ///< weight decay applies
  Initial initial = Initial::zero;
  std::int64_t offset = 0;  ///< first element in the stage's buffers
  std::int64_t padded_elements =
      0;  ///< as stored; padding rows follow the logical ones and stay zero

  std::int64_t elements() const;
};

/// Tensors of a stage in model order, with offsets into its buffers.
std::vector<Parameter> list_parameters(const Config& config, const StagePart& part);

/// The initial value of a parameter's logical elements: a pure function of (seed, index, element),
/// so the same whatever the split.
void fill_initial(const Config& config, const Parameter& parameter, std::span<float> values);

}  // namespace adaptra::model
