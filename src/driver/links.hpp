#pragma once
// The channels between stages as the deck wants them: which wire, which paths, which faults.

#include "deck/deck.hpp"
#include "faults/schedule.hpp"
#include "mpi/communicator.hpp"
#include "transport/channel.hpp"

#include <memory>

namespace adaptra::driver {

/// faults.inject and faults.trace. Throws Error{usage}.
faults::Schedule fault_schedule(const deck::Deck& deck);

/// One end of a link.
struct LinkEndSettings {
  LinkId link;
  transport::Direction sends = transport::Direction::forward;
  int peer = 0;  ///< rank in the communicator
  std::size_t message_bytes = 0;
  int slots = 2;  ///< per direction
};

/// The two ranks of a link call it at the same time, each rank its lower link first. `faults` must
/// outlive the channel. Throws Error{environment, peer_lost}.
std::unique_ptr<transport::Channel> make_link(const deck::Deck& deck, const mpi::Communicator& comm,
                                              const LinkEndSettings& end,
                                              const faults::Schedule& faults);

}  // namespace adaptra::driver
