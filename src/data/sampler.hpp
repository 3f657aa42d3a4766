#pragma once
// Which sequences a microbatch holds. The tokens are cut into sequences of T (plus one for the last
// target); an epoch visits each once, in an order drawn from the seed. Sequence g of the run
// belongs to a microbatch by arithmetic alone, so nothing needs to be kept or communicated: the
// state of the sampler is the step. Global microbatch m = replica + data * k (k-th of a replica) of
// a step, so that two replicas with N microbatches read what one reads with 2 N.

#include "data/token_source.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace adaptra::data {

class Sampler {
 public:
  struct Settings {
    int sequence_tokens = 0;       ///< T
    int microbatch_sequences = 0;  ///< B
    int microbatches = 0;          ///< N, per replica
    int replicas = 1;
    bool shuffled = true;
    std::uint64_t seed = 1;
  };

  /// Throws Error{file} where the source is shorter than one sequence.
  Sampler(const TokenSource& source, const Settings& settings);

  /// Sequences of one epoch.
  std::int64_t sequences() const { return sequences_; }

  /// Number of a microbatch in the run, from step 1 on: unique, the same for every layout.
  std::uint64_t global_microbatch(std::int64_t step, int replica, int microbatch) const;

  /// Tokens and targets [B][T] of a microbatch. Throws Error{file} (see TokenSource::copy).
  void read(std::int64_t step, int replica, int microbatch, std::vector<std::int32_t>& tokens,
            std::vector<std::int32_t>& targets) const;

 private:
  std::int64_t sequence_of(std::uint64_t position) const;

  const TokenSource& source_;
  Settings settings_;
  std::int64_t sequences_;
};

/// A permutation of 0 .. size-1 by its key, without a table: a Feistel network on the next even
/// number of bits, walked until the value is inside (Black and Rogaway 2002, "cycle walking").
std::uint64_t permute(std::uint64_t value, std::uint64_t size, std::uint64_t key);

}  // namespace adaptra::data
