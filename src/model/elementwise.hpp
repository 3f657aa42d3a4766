#pragma once
// The operators between the matrix products: biases, GELU (tanh form, Hendrycks and Gimpel 2016),
// residual additions with dropout. Shapes in each comment; T is the storage type, arithmetic is
// float.

#include "device/math.hpp"
#include "device/rows.hpp"
#include "model/random.hpp"

namespace adaptra::model {

/// Which elements dropout keeps, as a function of (key, element): nothing is stored.
struct Dropout {
  std::uint64_t key = 0;
  std::uint64_t threshold = 0;  ///< draws below it are dropped; 0: no dropout
  float scale = 1;              ///< of kept elements, 1 / (1 - p)

  static Dropout none() { return {}; }
  static Dropout with(double probability, std::uint64_t key) {
    if (probability <= 0) return none();
    return {key, static_cast<std::uint64_t>(probability * 0x1p63) * 2,
            static_cast<float>(1 / (1 - probability))};
  }
  bool active() const { return threshold != 0; }
  KOKKOS_INLINE_FUNCTION float factor(std::uint64_t element) const {
    if (threshold == 0) return 1.0F;
    return draw(key, element) < threshold ? 0.0F : scale;
  }
};

/// sum[i] += term[i].
inline void add(const device::Exec& exec, std::int64_t count, const float* term, float* sum) {
  device::for_each(
      exec, "add", count, KOKKOS_LAMBDA(std::int64_t i) { sum[i] += term[i]; });
}

/// y[M,N] += bias[N].
template <typename T>
void add_bias(const device::Exec& exec, std::int64_t rows, int columns, const float* bias, T* y) {
  device::for_rows(
      exec, "add_bias", rows, KOKKOS_LAMBDA(const device::Team& team, std::int64_t row) {
        T* line = y + row * columns;
        device::row_for(team, columns, [&](int c) { line[c] = T(float(line[c]) + bias[c]); });
      });
}

/// The logistic function in GELU's tanh form: gelu(x) = x * gate(x).
KOKKOS_INLINE_FUNCTION float gelu_gate(float x) {
  constexpr float two_root = 1.5957691216057308F;  // 2 sqrt(2 / pi)
  return 1.0F / (1.0F + device::exp_fast(-two_root * (x + 0.044715F * x * x * x)));
}

/// pre[M,N] += bias; act = gelu(pre).
template <typename T>
void bias_gelu(const device::Exec& exec, std::int64_t rows, int columns, const float* bias, T* pre,
               T* act) {
  device::for_rows(
      exec, "bias_gelu", rows, KOKKOS_LAMBDA(const device::Team& team, std::int64_t row) {
        T* in = pre + row * columns;
        T* out = act + row * columns;
        device::row_for(team, columns, [&](int c) {
          const T stored = T(float(in[c]) + bias[c]);
          const float x = float(stored);
          in[c] = stored;
          out[c] = T(x * gelu_gate(x));
        });
      });
}

/// Backward of gelu: d_pre = d_act * gelu'(pre), and act = gelu(pre) again, in place of pre.
template <typename T>
void gelu_backward(const device::Exec& exec, std::int64_t rows, int columns, const T* d_act,
                   T* pre_then_act, T* d_pre) {
  device::for_rows(
      exec, "gelu_backward", rows, KOKKOS_LAMBDA(const device::Team& team, std::int64_t row) {
        const T* up = d_act + row * columns;
        T* in = pre_then_act + row * columns;
        T* out = d_pre + row * columns;
        device::row_for(team, columns, [&](int c) {
          constexpr float two_root = 1.5957691216057308F;
          const float x = float(in[c]);
          const float gate = gelu_gate(x);
          const float slope = two_root * (1.0F + 3 * 0.044715F * x * x);
          out[c] = T(float(up[c]) * (gate + x * gate * (1.0F - gate) * slope));
          in[c] = T(x * gate);
        });
      });
}

/// out[M,C] = residual + dropout(y + bias).
template <typename T>
void bias_residual(const device::Exec& exec, std::int64_t rows, int columns, const T* y,
                   const float* bias, const T* residual, const Dropout& dropout, T* out) {
  if (!dropout.active()) {
    device::for_rows(
        exec, "bias_residual", rows, KOKKOS_LAMBDA(const device::Team& team, std::int64_t row) {
          const std::int64_t begin = row * columns;
          device::row_for(team, columns, [&](int c) {
            out[begin + c] = T(float(residual[begin + c]) + (float(y[begin + c]) + bias[c]));
          });
        });
    return;
  }
  device::for_rows(
      exec, "bias_residual_dropout", rows,
      KOKKOS_LAMBDA(const device::Team& team, std::int64_t row) {
        const std::int64_t begin = row * columns;
        device::row_for(team, columns, [&](int c) {
          const float kept = dropout.factor(static_cast<std::uint64_t>(begin + c));
          out[begin + c] = T(float(residual[begin + c]) + kept * (float(y[begin + c]) + bias[c]));
        });
      });
}

/// dy[n] = dropout'(dx)[n]: the gradient behind a residual addition, kept for W.
template <typename T>
void dropout_backward(const device::Exec& exec, std::int64_t elements, const T* dx,
                      const Dropout& dropout, T* dy) {
  if (!dropout.active()) {
    device::for_each(
        exec, "copy_gradient", elements, KOKKOS_LAMBDA(std::int64_t i) { dy[i] = dx[i]; });
    return;
  }
  device::for_each(
      exec, "dropout_backward", elements, KOKKOS_LAMBDA(std::int64_t i) {
        dy[i] = T(float(dx[i]) * dropout.factor(static_cast<std::uint64_t>(i)));
      });
}

}  // namespace adaptra::model
