#pragma once
// AdamW (Loshchilov and Hutter 2019, as in PyTorch: decay applied to the weight before the update)
// and the gradient norm, over fixed pieces of the tensors, so that sums do not depend on the split
// into stages.

#include "device/rows.hpp"

#include <cstdint>
#include <type_traits>

namespace adaptra::model {

/// Elements of a piece; pieces never cross tensors.
inline constexpr std::int64_t optimizer_piece_elements = 1 << 16;

/// A piece of one tensor.
struct Piece {
  std::int64_t offset = 0;
  std::int32_t elements = 0;
  std::int32_t decayed = 0;
};

struct AdamW {
  double learning_rate = 0;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  std::int64_t update = 1;    ///< number of this update, from 1: for the bias corrections
  double gradient_scale = 1;  ///< clipping
};

/// squares[p] = sum of g^2 over piece p, in double.
inline void piece_squares(const device::Exec& exec, std::int64_t pieces, const Piece* list,
                          const float* gradient, double* squares) {
  device::for_rows(
      exec, "gradient_squares", pieces, KOKKOS_LAMBDA(const device::Team& team, std::int64_t p) {
        const float* g = gradient + list[p].offset;
        const double sum = device::row_sum<double>(
            team, list[p].elements, [&](int i) { return double(g[i]) * double(g[i]); });
        if (team.team_rank() == 0) squares[p] = sum;
      });
}

/// One update of every piece; `copy` gets the weights in the storage type of the products (ignored
/// where that is float).
template <typename T>
void adamw_update(const device::Exec& exec, std::int64_t pieces, const Piece* list,
                  const AdamW& adam, const float* gradient, float* weight, float* first_moment,
                  float* second_moment, T* copy) {
  const double power1 = 1 - std::pow(adam.beta1, static_cast<double>(adam.update));
  const double power2 = 1 - std::pow(adam.beta2, static_cast<double>(adam.update));
  const auto b1 = static_cast<float>(adam.beta1), b2 = static_cast<float>(adam.beta2);
  const auto one_b1 = static_cast<float>(1 - adam.beta1),
             one_b2 = static_cast<float>(1 - adam.beta2);
  const auto step_size = static_cast<float>(adam.learning_rate / power1);
  const auto root2 = static_cast<float>(1 / std::sqrt(power2));
  const auto epsilon = static_cast<float>(adam.epsilon);
  const auto keep = static_cast<float>(1 - adam.learning_rate * adam.weight_decay);
  const auto scale = static_cast<float>(adam.gradient_scale);
  device::for_rows(
      exec, "adamw", pieces, KOKKOS_LAMBDA(const device::Team& team, std::int64_t p) {
        const std::int64_t begin = list[p].offset;
        T* const narrow = copy;  // named here: nvcc captures nothing inside a constexpr if
        const float decay = list[p].decayed != 0 ? keep : 1.0F;
        device::row_for(team, list[p].elements, [&](int i) {
          const float g = gradient[begin + i] * scale;
          const float m = b1 * first_moment[begin + i] + one_b1 * g;
          const float v = b2 * second_moment[begin + i] + one_b2 * (g * g);
          const float w =
              weight[begin + i] * decay - step_size * (m / (sqrtf(v) * root2 + epsilon));
          first_moment[begin + i] = m;
          second_moment[begin + i] = v;
          weight[begin + i] = w;
          if constexpr (!std::is_same_v<T, float>) narrow[begin + i] = T(w);
        });
      });
}

}  // namespace adaptra::model
