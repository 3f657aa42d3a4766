#pragma once
// LayerNorm over the channels of each row (Ba et al. 2016): y = (x - mean) * rstd * weight + bias.
// Statistics are float whatever the storage type. Shapes: x, y [M,C]; mean, rstd [M]; weight, bias
// [C].

#include "device/rows.hpp"

namespace adaptra::model {

inline constexpr float layernorm_epsilon = 1e-5F;

/// Normalises and keeps mean and rstd.
template <typename T>
void layernorm_forward(const device::Exec& exec, std::int64_t rows, int channels, const T* x,
                       const float* weight, const float* bias, T* y, float* mean, float* rstd) {
  device::for_rows(
      exec, "layernorm_forward", rows, KOKKOS_LAMBDA(const device::Team& team, std::int64_t row) {
        const T* in = x + row * channels;
        T* out = y + row * channels;
        const float m =
            device::row_sum(team, channels, [&](int c) { return float(in[c]); }) / float(channels);
        const float variance = device::row_sum(team, channels,
                                               [&](int c) {
                                                 const float d = float(in[c]) - m;
                                                 return d * d;
                                               }) /
                               float(channels);
        const float r = 1.0F / sqrtf(variance + layernorm_epsilon);
        device::row_for(team, channels,
                        [&](int c) { out[c] = T((float(in[c]) - m) * r * weight[c] + bias[c]); });
        if (team.team_rank() == 0) {
          mean[row] = m;
          rstd[row] = r;
        }
      });
}

/// Normalises again with the statistics kept: what W needs, without having stored it.
template <typename T>
void layernorm_again(const device::Exec& exec, std::int64_t rows, int channels, const T* x,
                     const float* weight, const float* bias, const float* mean, const float* rstd,
                     T* y) {
  device::for_rows(
      exec, "layernorm_again", rows, KOKKOS_LAMBDA(const device::Team& team, std::int64_t row) {
        const T* in = x + row * channels;
        T* out = y + row * channels;
        const float m = mean[row], r = rstd[row];
        device::row_for(team, channels,
                        [&](int c) { out[c] = T((float(in[c]) - m) * r * weight[c] + bias[c]); });
      });
}

/// Gradient of the input, added to that of the residual: dx = d_residual + LN'(dy). dx may be
/// d_residual; without a residual pass nullptr.
template <typename T>
void layernorm_backward(const device::Exec& exec, std::int64_t rows, int channels, const T* dy,
                        const T* x, const float* weight, const float* mean, const float* rstd,
                        const T* d_residual, T* dx) {
  device::for_rows(
      exec, "layernorm_backward", rows, KOKKOS_LAMBDA(const device::Team& team, std::int64_t row) {
        const std::int64_t begin = row * channels;
        const float m = mean[row], r = rstd[row];
        const float mean_d =
            device::row_sum(team, channels,
                            [&](int c) { return float(dy[begin + c]) * weight[c]; }) /
            float(channels);
        const float mean_dx = device::row_sum(team, channels,
                                              [&](int c) {
                                                const float xhat = (float(x[begin + c]) - m) * r;
                                                return float(dy[begin + c]) * weight[c] * xhat;
                                              }) /
                              float(channels);
        if (d_residual != nullptr) {
          device::row_for(team, channels, [&](int c) {
            const float xhat = (float(x[begin + c]) - m) * r;
            const float d = float(dy[begin + c]) * weight[c];
            dx[begin + c] = T(float(d_residual[begin + c]) + r * (d - mean_d - xhat * mean_dx));
          });
        } else {
          device::row_for(team, channels, [&](int c) {
            const float xhat = (float(x[begin + c]) - m) * r;
            const float d = float(dy[begin + c]) * weight[c];
            dx[begin + c] = T(r * (d - mean_d - xhat * mean_dx));
          });
        }
      });
}

}  // namespace adaptra::model
