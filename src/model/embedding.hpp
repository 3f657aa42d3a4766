#pragma once
// Token and position embedding, and its gradients without atomics: positions that hold the same
// token are added in order by one team. Shapes: x, dx [M,C]; wte [Vp,C]; wpe [T,C].

#include "device/rows.hpp"
#include "model/elementwise.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace adaptra::model {

/// Rows of a microbatch grouped by their token: rows[start[u] .. start[u+1]) hold token[u].
struct TokenGroups {
  std::vector<std::int32_t> rows, token, start;

  static TokenGroups of(std::span<const std::int32_t> tokens) {
    TokenGroups groups;
    groups.rows.resize(tokens.size());
    std::iota(groups.rows.begin(), groups.rows.end(), 0);
    std::stable_sort(groups.rows.begin(), groups.rows.end(), [&](std::int32_t a, std::int32_t b) {
      return tokens[static_cast<std::size_t>(a)] < tokens[static_cast<std::size_t>(b)];
    });
    for (std::size_t i = 0; i < groups.rows.size(); ++i) {
      const std::int32_t token = tokens[static_cast<std::size_t>(groups.rows[i])];
      if (i == 0 || token != groups.token.back()) {
        groups.token.push_back(token);
        groups.start.push_back(static_cast<std::int32_t>(i));
      }
    }
    groups.start.push_back(static_cast<std::int32_t>(groups.rows.size()));
    return groups;
  }
};

template <typename T>
void embed(const device::Exec& exec, std::int64_t rows, int context, int channels,
           const std::int32_t* tokens, const T* wte, const T* wpe, const Dropout& dropout, T* x) {
  device::for_rows(
      exec, "embed", rows, KOKKOS_LAMBDA(const device::Team& team, std::int64_t row) {
        const T* word = wte + std::int64_t{tokens[row]} * channels;
        const T* position = wpe + (row % context) * channels;
        T* out = x + row * channels;
        const auto element = static_cast<std::uint64_t>(row) * channels;
        device::row_for(team, channels, [&](int c) {
          out[c] = T((float(word[c]) + float(position[c])) * dropout.factor(element + c));
        });
      });
}

/// d_wte[token] += dx of its rows, in order of the rows; groups as from TokenGroups, on the device.
template <typename T>
void add_token_gradient(const device::Exec& exec, int groups, int channels,
                        const std::int32_t* group_rows, const std::int32_t* group_token,
                        const std::int32_t* group_start, const T* dx, const Dropout& dropout,
                        float* d_wte) {
  device::for_rows(
      exec, "token_gradient", groups, KOKKOS_LAMBDA(const device::Team& team, std::int64_t group) {
        float* sum = d_wte + std::int64_t{group_token[group]} * channels;
        for (std::int32_t i = group_start[group]; i < group_start[group + 1]; ++i) {
          const std::int64_t row = group_rows[i];
          const T* line = dx + row * channels;
          const auto element = static_cast<std::uint64_t>(row) * channels;
          device::row_for(team, channels,
                          [&](int c) { sum[c] += float(line[c]) * dropout.factor(element + c); });
        }
      });
}

/// d_wpe[t] += dx of position t of every sequence, in order.
template <typename T>
void add_position_gradient(const device::Exec& exec, int sequences, int tokens, int channels,
                           const T* dx, const Dropout& dropout, float* d_wpe) {
  device::for_rows(
      exec, "position_gradient", tokens, KOKKOS_LAMBDA(const device::Team& team, std::int64_t t) {
        float* sum = d_wpe + t * channels;
        for (int b = 0; b < sequences; ++b) {
          const std::int64_t row = std::int64_t{b} * tokens + t;
          const T* line = dx + row * channels;
          const auto element = static_cast<std::uint64_t>(row) * channels;
          device::row_for(team, channels,
                          [&](int c) { sum[c] += float(line[c]) * dropout.factor(element + c); });
        }
      });
}

}  // namespace adaptra::model
