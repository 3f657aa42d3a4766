#pragma once
// Tagged integers: a stage cannot be passed where a rank is meant.

#include <compare>
#include <cstdint>
#include <functional>

namespace adaptra {

/// An index of one kind. Explicit in, explicit out (`value`), comparable, hashable.
template <typename Tag>
struct Id {
  int value = 0;
  constexpr Id() = default;
  constexpr explicit Id(int v) : value(v) {}
  friend constexpr auto operator<=>(Id, Id) = default;
};

using Rank = Id<struct RankTag>;                ///< MPI rank in the run's communicator
using StageId = Id<struct StageTag>;            ///< pipeline stage, 0 holds the embedding
using ReplicaId = Id<struct ReplicaTag>;        ///< data-parallel replica
using LinkId = Id<struct LinkTag>;              ///< link i joins stages i and i + 1
using MicrobatchId = Id<struct MicrobatchTag>;  ///< microbatch of one step, 0 .. N-1

}  // namespace adaptra

template <typename Tag>
struct std::hash<adaptra::Id<Tag>> {
  std::size_t operator()(adaptra::Id<Tag> id) const noexcept { return std::hash<int>{}(id.value); }
};
