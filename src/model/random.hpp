#pragma once
// Counter-based random numbers: a hash of (key, counter), so that any element can be drawn
// anywhere, in any order, with the same result (as in Salmon et al., SC'11; the mixer is
// SplitMix64's finaliser, Steele et al., OOPSLA'14).

#include <Kokkos_Core.hpp>

#include <cstdint>

namespace adaptra::model {

KOKKOS_INLINE_FUNCTION std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return x;
}

/// 64 random bits of the counter under the key.
KOKKOS_INLINE_FUNCTION std::uint64_t draw(std::uint64_t key, std::uint64_t counter) {
  return mix(mix(counter + 0x9e3779b97f4a7c15ULL) ^ key);
}

/// A key from two parts.
KOKKOS_INLINE_FUNCTION std::uint64_t combine(std::uint64_t key, std::uint64_t part) {
  return mix(key ^ mix(part + 0x9e3779b97f4a7c15ULL));
}

}  // namespace adaptra::model
