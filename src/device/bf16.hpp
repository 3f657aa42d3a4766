#pragma once
// bfloat16 storage: 8 bits of exponent, 7 of mantissa; arithmetic is in float. Conversion to bf16
// rounds to nearest even and keeps NaN. Same bits on host and device.

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <cstring>

namespace adaptra::device {

struct Bf16 {
  std::uint16_t bits = 0;

  Bf16() = default;
  KOKKOS_INLINE_FUNCTION explicit Bf16(float value) {
    std::uint32_t wide = 0;
    memcpy(&wide, &value, sizeof wide);
    const std::uint32_t rounded = (wide + 0x7fffU + ((wide >> 16) & 1U)) >> 16;
    const bool nan = (wide & 0x7fffffffU) > 0x7f800000U;
    bits = static_cast<std::uint16_t>(nan ? ((wide >> 16) | 0x40U) : rounded);
  }
  KOKKOS_INLINE_FUNCTION operator float() const {
    const std::uint32_t wide = std::uint32_t{bits} << 16;
    float value = 0;
    memcpy(&value, &wide, sizeof value);
    return value;
  }
};

static_assert(sizeof(Bf16) == 2);

}  // namespace adaptra::device
