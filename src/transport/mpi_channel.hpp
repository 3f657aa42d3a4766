#pragma once
// A channel over MPI: non-blocking sends and receives, progressed by whoever polls. The receives of
// a step are posted in the order of the microbatches as slots become free, so that every send finds
// its receive sooner or later even where MPI buffers nothing (rendezvous only).

#include "mpi/communicator.hpp"
#include "transport/channel.hpp"

#include <memory>

namespace adaptra::transport {

struct MpiChannelSettings {
  LinkId link;
  Direction sends =
      Direction::forward;  ///< the end above a link sends forward, the one below backward
  int peer = 0;            ///< rank in the communicator
  std::size_t message_bytes = 0;
  int send_slots = 2;     ///< messages on their way at once
  int receive_slots = 2;  ///< messages that may have come and not been consumed
  double deadline_s = 60;
};

/// The communicator must outlive the channel and be used by nothing else with the same peers.
std::unique_ptr<Channel> make_mpi_channel(const mpi::Communicator& comm,
                                          const MpiChannelSettings& settings);

}  // namespace adaptra::transport
