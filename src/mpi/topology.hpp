#pragma once
// Where each rank stands in the run: data-parallel replica, pipeline stage, tensor part; and who
// runs on which host.

#include "core/ids.hpp"
#include "mpi/communicator.hpp"

#include <string>
#include <vector>

namespace adaptra::mpi {

/// Sizes of the three axes and which varies fastest from rank to rank, e.g.
/// {"tensor","data","pipeline"}.
struct Layout {
  int data = 1;
  int pipeline = 1;
  int tensor = 1;
  std::vector<std::string> order = {"tensor", "data", "pipeline"};  ///< fastest first

  int ranks() const { return data * pipeline * tensor; }
};

/// Coordinates of one rank.
struct Coordinates {
  int data = 0;
  int pipeline = 0;
  int tensor = 0;
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

/// rank -> coordinates, and back. Pure.
Coordinates coordinates_of(const Layout& layout, Rank rank);
Rank rank_of(const Layout& layout, const Coordinates& at);

/// What every rank tells of itself at start-up.
struct Peer {
  Coordinates at;
  std::string host;
  int pid = 0;
  int local_rank = 0;  ///< index among the ranks of this host
};

/// The run's communicators and neighbours, seen from one rank.
class Topology {
 public:
  /// Collective. Throws Error{usage} where the layout's ranks are not the communicator's.
  Topology(const Communicator& world, const Layout& layout);

  const Layout& layout() const { return layout_; }
  const Coordinates& at() const { return at_; }
  StageId stage() const { return StageId(at_.pipeline); }
  ReplicaId replica() const { return ReplicaId(at_.data); }
  bool first_stage() const { return at_.pipeline == 0; }
  bool last_stage() const { return at_.pipeline == layout_.pipeline - 1; }

  /// Ranks of one replica, ordered by stage; and of one stage, ordered by replica.
  const Communicator& pipeline() const { return pipeline_; }
  const Communicator& data() const { return data_; }

  /// All ranks, by world rank.
  const std::vector<Peer>& peers() const { return peers_; }
  /// "rank 3 (node07, replica 0, stage 3)".
  std::string describe(Rank rank) const;

 private:
  Layout layout_;
  Coordinates at_;
  Communicator pipeline_;
  Communicator data_;
  std::vector<Peer> peers_;
};

}  // namespace adaptra::mpi
