#include "mpi/topology.hpp"

#include "core/error.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>

namespace adaptra::mpi {
namespace {

int axis_size(const Layout& layout, const std::string& axis) {
  if (axis == "data") return layout.data;
  if (axis == "pipeline") return layout.pipeline;
  return layout.tensor;
}

int& axis_of(Coordinates& at, const std::string& axis) {
  if (axis == "data") return at.data;
  if (axis == "pipeline") return at.pipeline;
  return at.tensor;
}

Layout fitting(const Communicator& world, const Layout& layout) {
  if (layout.ranks() != world.size()) {
    throw Error(
        ExitCode::usage,
        fmt::format("parallel.data x parallel.pipeline x parallel.tensor = {} x {} x {} = {} "
                    "ranks, but the launcher started {}: start 'mpirun -n {}' or change the "
                    "deck",
                    layout.data, layout.pipeline, layout.tensor, layout.ranks(), world.size(),
                    layout.ranks()));
  }
  return layout;
}

}  // namespace

Coordinates coordinates_of(const Layout& layout, Rank rank) {
  Coordinates at;
  int rest = rank.value;
  for (const auto& axis : layout.order) {
    const int size = axis_size(layout, axis);
    axis_of(at, axis) = rest % size;
    rest /= size;
  }
  return at;
}

Rank rank_of(const Layout& layout, const Coordinates& at) {
  Coordinates copy = at;
  int rank = 0, stride = 1;
  for (const auto& axis : layout.order) {
    rank += axis_of(copy, axis) * stride;
    stride *= axis_size(layout, axis);
  }
  return Rank(rank);
}

Topology::Topology(const Communicator& world, const Layout& layout)
    : layout_(fitting(world, layout)),
      at_(coordinates_of(layout_, Rank(world.rank()))),
      pipeline_(world.split(at_.data * layout_.tensor + at_.tensor, at_.pipeline)),
      data_(world.split(at_.pipeline * layout_.tensor + at_.tensor, at_.data)) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const auto told = world.gather_all(fmt::format("{} {}", getpid(), host.data()));
  std::map<std::string, int> on_host;
  for (int r = 0; r < world.size(); ++r) {
    const auto& line = told[static_cast<std::size_t>(r)];
    const auto space = line.find(' ');
    Peer peer{coordinates_of(layout_, Rank(r)), line.substr(space + 1), std::stoi(line), 0};
    peer.local_rank = on_host[peer.host]++;
    peers_.push_back(std::move(peer));
  }
}

std::string Topology::describe(Rank rank) const {
  const Peer& peer = peers_.at(static_cast<std::size_t>(rank.value));
  return fmt::format("rank {} ({}, replica {}, stage {})", rank.value, peer.host, peer.at.data,
                     peer.at.pipeline);
}

}  // namespace adaptra::mpi
