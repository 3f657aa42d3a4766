#include "model/parameters.hpp"

#include "model/random.hpp"

#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

namespace adaptra::model {

std::int64_t Parameter::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<Parameter> list_parameters(const Config& config, const StagePart& part) {
  const std::int64_t c = config.channels;
  std::vector<Parameter> list;
  std::int64_t offset = 0;
  const auto add = [&](std::string name, int index, std::vector<std::int64_t> shape,
                       Initial initial, std::int64_t padded = 0) {
    Parameter parameter;
    parameter.name = std::move(name);
    parameter.shape = std::move(shape);
    parameter.index = index;
    parameter.initial = initial;
    // Decay is for matrices; biases and LayerNorm have one axis.
    parameter.decayed = parameter.shape.size() > 1;
    parameter.offset = offset;
    parameter.padded_elements = padded > 0 ? padded : parameter.elements();
    offset += parameter.padded_elements;
    list.push_back(std::move(parameter));
  };
  if (part.embedding || part.head) {
    add("wte.weight", 0, {config.vocabulary, c}, Initial::normal, config.padded_vocabulary() * c);
  }
  if (part.embedding) add("wpe.weight", 1, {config.context_tokens, c}, Initial::normal);
  for (int l = part.first_layer; l < part.first_layer + part.layers; ++l) {
    const std::string h = "h." + std::to_string(l) + ".";
    const int index = 2 + 12 * l;
    add(h + "ln_1.weight", index, {c}, Initial::one);
    add(h + "ln_1.bias", index + 1, {c}, Initial::zero);
    add(h + "attn.c_attn.weight", index + 2, {c, 3 * c}, Initial::normal);
    add(h + "attn.c_attn.bias", index + 3, {3 * c}, Initial::zero);
    add(h + "attn.c_proj.weight", index + 4, {c, c}, Initial::residual);
    add(h + "attn.c_proj.bias", index + 5, {c}, Initial::zero);
    add(h + "ln_2.weight", index + 6, {c}, Initial::one);
    add(h + "ln_2.bias", index + 7, {c}, Initial::zero);
    add(h + "mlp.c_fc.weight", index + 8, {c, 4 * c}, Initial::normal);
    add(h + "mlp.c_fc.bias", index + 9, {4 * c}, Initial::zero);
    add(h + "mlp.c_proj.weight", index + 10, {4 * c, c}, Initial::residual);
    add(h + "mlp.c_proj.bias", index + 11, {c}, Initial::zero);
  }
  if (part.head) {
    const int index = 2 + 12 * config.layers;
    add("ln_f.weight", index, {c}, Initial::one);
    add("ln_f.bias", index + 1, {c}, Initial::zero);
  }
  return list;
}

void fill_initial(const Config& config, const Parameter& parameter, std::span<float> values) {
  constexpr double spread = 0.02;                                      // of GPT-2's weights
  const std::uint64_t key = combine(combine(config.seed, 0x696e6974),  // "init"
                                    static_cast<std::uint64_t>(parameter.index));
  const double scale =
      parameter.initial == Initial::residual ? spread / std::sqrt(2.0 * config.layers) : spread;
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (parameter.initial) {
      case Initial::zero:
        values[i] = 0;
        break;
      case Initial::one:
        values[i] = 1;
        break;
      case Initial::normal:
      case Initial::residual: {
        // Box and Muller, on 53 and 53 random bits.
        const double u = (static_cast<double>(draw(key, 2 * i) >> 11) + 1) * 0x1p-53;
        const double v = static_cast<double>(draw(key, 2 * i + 1) >> 11) * 0x1p-53;
        values[i] = static_cast<float>(scale * std::sqrt(-2 * std::log(u)) *
                                       std::cos(2 * std::numbers::pi * v));
        break;
      }
    }
  }
}

}  // namespace adaptra::model
