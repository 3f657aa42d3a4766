#pragma once
// exp() that compilers vectorise, with the same bits on every host: 2^n times a polynomial on
// [-ln2/2, ln2/2] (the usual split of ln 2 in two floats; coefficients 1/k! corrected by minimax,
// after S. Moshier's Cephes). Relative error below 2 ulp for -87 <= x <= 88; 0 below, +inf above;
// NaN stays NaN.

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <cstring>

namespace adaptra::device {

KOKKOS_INLINE_FUNCTION float exp_fast(float x) {
  constexpr float log2e = 1.44269504088896341F;
  constexpr float ln2_high = 0.693359375F, ln2_low = -2.12194440e-4F;
  const float low = -87.0F, high = 88.0F;
  float y = x > low ? x : low;  // NaN becomes low, so that the cast below is defined
  y = y > high ? high : y;
  // Round to nearest by the magic constant 1.5 * 2^23: exact, and one addition on every machine.
  constexpr float magic = 12582912.0F;
  const float shifted = y * log2e + magic;
  const float n = shifted - magic;
  const float r = (y - n * ln2_high) - n * ln2_low;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float mantissa = p * (r * r) + r + 1.0F;
  const auto exponent = static_cast<std::int32_t>(n);
  const std::uint32_t bits = static_cast<std::uint32_t>(exponent + 127) << 23;
  float scale = 0;
  memcpy(&scale, &bits, sizeof scale);
  float result = mantissa * scale;
  result = x < low ? 0.0F : result;
  result = x > high ? __builtin_huge_valf() : result;
  return x != x ? x : result;
}

}  // namespace adaptra::device
