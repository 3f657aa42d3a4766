#pragma once
// A communicator, owned, and the few collectives that Adaptra's control path needs. All of them
// take a deadline in seconds and throw Error{peer_lost} when it passes. Collective; main thread
// only.

#include "mpi/wait.hpp"

#include <mpi.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace adaptra::mpi {

class Communicator {
 public:
  /// A duplicate of MPI_COMM_WORLD. Collective.
  static Communicator world(double deadline_s);
  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;
  ~Communicator();

  int rank() const { return rank_; }
  int size() const { return size_; }
  MPI_Comm handle() const { return comm_; }
  double deadline_s() const { return deadline_s_; }

  /// Ranks of the same color form a new communicator, ordered by key. Collective.
  Communicator split(int color, int key) const;

  /// Waits for all ranks.
  void barrier() const;

  /// The largest value of all ranks.
  std::int64_t maximum(std::int64_t value) const;

  /// Every rank's bytes, in rank order, on every rank.
  std::vector<std::string> gather_all(const std::string& mine) const;

  /// Every rank's numbers (any count per rank), in rank order, on every rank.
  std::vector<std::vector<double>> gather_all(std::span<const double> mine) const;

  /// Rank `root`'s text, on every rank.
  std::string broadcast(const std::string& text, int root) const;

 private:
  Communicator(MPI_Comm comm, double deadline_s);
  void wait(MPI_Request& request, const char* what) const;
  std::vector<int> gather_counts(int mine) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  double deadline_s_ = 60;
  mutable bool call_pending_ = false;  // a wait passed its deadline
};

}  // namespace adaptra::mpi
