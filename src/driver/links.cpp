#include "driver/links.hpp"

#include "transport/mpi_channel.hpp"
#include "transport/ucx/ucx_channel.hpp"

#include <fstream>
#include <sstream>

namespace adaptra::driver {

faults::Schedule fault_schedule(const deck::Deck& deck) {
  std::vector<faults::Fault> list;
  for (const auto& text : deck.faults.inject) list.push_back(faults::parse_fault(text));
  if (!deck.faults.trace.empty()) {
    std::ifstream in(deck.faults.trace);
    if (!in) throw Error(ExitCode::usage, "faults.trace: cannot read " + deck.faults.trace);
    std::ostringstream text;
    text << in.rdbuf();
    for (auto& fault : faults::read_trace(text.str(), deck.faults.trace)) list.push_back(fault);
  }
  if (!list.empty() && deck.transport.wire != "ucx") {
    throw Error(ExitCode::usage,
                "faults are injected by the ucx wire only: set transport.wire = \"ucx\"");
  }
  return faults::Schedule(std::move(list));
}

std::unique_ptr<transport::Channel> make_link(const deck::Deck& deck, const mpi::Communicator& comm,
                                              const LinkEndSettings& end,
                                              const faults::Schedule& faults) {
  namespace ucx = transport::ucx;
  const auto common = [&](auto& settings) {
    settings.link = end.link;
    settings.sends = end.sends;
    settings.peer = end.peer;
    settings.message_bytes = end.message_bytes;
    settings.send_slots = settings.receive_slots = end.slots;
    settings.deadline_s = deck.run.peer_deadline_s;
  };
  if (deck.transport.wire == "mpi") {
    transport::MpiChannelSettings settings;
    common(settings);
    return transport::make_mpi_channel(comm, settings);
  }
  transport::UcxChannelSettings settings;
  common(settings);
  settings.rail_deadline_s = deck.transport.rail_deadline_s;
  settings.rails = deck.transport.rails;
  settings.same_host =
      deck.transport.same_host == "network" ? ucx::SameHost::network : ucx::SameHost::shared_memory;
  settings.wait = deck.transport.wait == "spin" ? ucx::Wait::spin : ucx::Wait::event;
  settings.checksum = deck.transport.checksum ? ucx::Checksum::on : ucx::Checksum::off;
  settings.faults = &faults;
  return transport::make_ucx_channel(comm, settings);
}

}  // namespace adaptra::driver
