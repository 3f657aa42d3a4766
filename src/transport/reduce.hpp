#pragma once
// Sums of gradients over the data-parallel replicas, and the exchange of the tied embedding's two
// halves.
//
// Every element is summed in the order of the ranks, ((g0 + g1) + g2) + ..., whatever the number of
// elements and how they are cut: so the bits do not depend on the pipeline layout. Each rank sums a
// share of every chunk and gathers the other shares (reduce-scatter and all-gather by direct
// exchange: the volume of a ring, its order fixed by ranks instead of by neighbours).

#include "core/error.hpp"
#include "mpi/communicator.hpp"

#include <span>
#include <vector>

namespace adaptra::transport {

class Reducer {
 public:
  /// Scratch for chunks of at most `chunk_elements`; the communicator must outlive the reducer.
  Reducer(const mpi::Communicator& comm, std::size_t chunk_elements = std::size_t{1} << 20);

  /// Replaces `values` by the sum over all ranks of the communicator. Collective; every rank gives
  /// as many. Error{peer_lost} after the communicator's deadline.
  Status sum(std::span<float> values);

 private:
  Status sum_chunk(std::span<float> values);

  const mpi::Communicator& comm_;
  std::size_t chunk_elements_;
  std::vector<float> received_;
};

/// Sends `mine` to the peer and receives its `theirs`, of equal size. Both ranks call it.
Status exchange(const mpi::Communicator& comm, int peer, std::span<const float> mine,
                std::span<float> theirs);

}  // namespace adaptra::transport
