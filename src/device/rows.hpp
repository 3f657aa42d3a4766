#pragma once
// Kernels over rows: one team per row, its lanes over the row's columns. On a GPU the lanes are the
// threads of a block; on the host the row is one loop that the compiler vectorises, with sums kept
// in a fixed number of partial sums, so that their bits do not depend on the number of threads.

#include "device/session.hpp"

#include <string>

namespace adaptra::device {

using Team = Kokkos::TeamPolicy<Exec>::member_type;

/// body(team, row) for each row.
template <typename Body>
void for_rows(const Exec& exec, const std::string& label, std::int64_t rows, const Body& body) {
  using Policy = Kokkos::TeamPolicy<Exec>;
  const auto league = static_cast<int>(rows);
  const Policy policy = host_accessible ? Policy(exec, league, 1, 1) : Policy(exec, league, 256, 1);
  Kokkos::parallel_for(
      label, policy,
      KOKKOS_LAMBDA(const Team& team) { body(team, std::int64_t{team.league_rank()}); });
}

/// body(i) for each element, in any order.
template <typename Body>
void for_each(const Exec& exec, const std::string& label, std::int64_t count, const Body& body) {
  using Policy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for(label, Policy(exec, 0, count), body);
}

/// data[i] = 0, in the order of the execution space.
template <typename T>
void clear(const Exec& exec, T* data, std::int64_t count) {
  for_each(
      exec, "clear", count, KOKKOS_LAMBDA(std::int64_t i) { data[i] = T(0); });
}

/// to[i] = To(from[i]).
template <typename From, typename To>
void convert(const Exec& exec, std::int64_t count, const From* from, To* to) {
  for_each(
      exec, "convert", count, KOKKOS_LAMBDA(std::int64_t i) { to[i] = To(from[i]); });
}

/// f(j) for j in [0, n), by the lanes of the team.
template <typename F>
KOKKOS_INLINE_FUNCTION void row_for(const Team& team, int n, const F& f) {
  if constexpr (host_accessible) {
    for (int j = 0; j < n; ++j) f(j);
  } else {
    Kokkos::parallel_for(Kokkos::TeamVectorRange(team, n), f);
  }
}

/// Sum of f(j) for j in [0, n), on every lane, in float unless told otherwise.
template <typename Number = float, typename F>
KOKKOS_INLINE_FUNCTION Number row_sum(const Team& team, int n, const F& f) {
  if constexpr (host_accessible) {
    constexpr int lanes = 16;
    Number partial[lanes] = {};
    int j = 0;
    for (; j + lanes <= n; j += lanes) {
      for (int l = 0; l < lanes; ++l) partial[l] += f(j + l);
    }
    for (int l = 0; j + l < n; ++l) partial[l] += f(j + l);
    for (int width = lanes / 2; width > 0; width /= 2) {
      for (int l = 0; l < width; ++l) partial[l] += partial[l + width];
    }
    return partial[0];
  } else {
    Number sum = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(team, n), [&](int j, Number& part) { part += f(j); }, sum);
    return sum;
  }
}

/// Largest f(j) for j in [0, n), n >= 1, on every lane.
template <typename F>
KOKKOS_INLINE_FUNCTION float row_max(const Team& team, int n, const F& f) {
  if constexpr (host_accessible) {
    constexpr int lanes = 16;
    float best[lanes];
    for (float& lane : best) lane = f(0);
    int j = 0;
    for (; j + lanes <= n; j += lanes) {
      for (int l = 0; l < lanes; ++l) {
        const float value = f(j + l);
        best[l] = value > best[l] ? value : best[l];
      }
    }
    for (int l = 0; j + l < n; ++l) {
      const float value = f(j + l);
      best[l] = value > best[l] ? value : best[l];
    }
    float result = best[0];
    for (int l = 1; l < lanes; ++l) result = best[l] > result ? best[l] : result;
    return result;
  } else {
    float result = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(team, n),
        [&](int j, float& part) {
          const float value = f(j);
          part = value > part ? value : part;
        },
        Kokkos::Max<float>(result));
    return result;
  }
}

}  // namespace adaptra::device
