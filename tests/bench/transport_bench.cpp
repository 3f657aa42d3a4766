// Messages between two ranks through Channel, from hand-over to delivery: half the round trip of
// one message, and bytes per second of a stream of messages. tests/bench/transport_bench.py runs it
// beside ucx_perftest and prints ratios.
//   mpirun -n 2 transport_bench --wire ucx --device lo --wait spin
#include "mpi/session.hpp"
#include "transport/mpi_channel.hpp"
#include "transport/ucx/ucx_channel.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

namespace {

using namespace adaptra;
using transport::Channel;
using transport::Direction;

struct Options {
  std::string wire = "ucx";
  std::string device;  // empty: shared memory
  std::string wait = "spin";
  bool checksum = false;
};

std::unique_ptr<Channel> open(const mpi::Communicator& world, const Options& options,
                              std::size_t bytes) {
  const auto common = [&](auto& settings) {
    settings.sends = world.rank() == 0 ? Direction::forward : Direction::backward;
    settings.peer = 1 - world.rank();
    settings.message_bytes = bytes;
    settings.send_slots = settings.receive_slots = 4;
  };
  if (options.wire == "mpi") {
    transport::MpiChannelSettings settings;
    common(settings);
    return make_mpi_channel(world, settings);
  }
  transport::UcxChannelSettings settings;
  common(settings);
  if (!options.device.empty()) {
    settings.same_host = transport::ucx::SameHost::network;
    settings.rails = {options.device};
  }
  settings.wait = options.wait == "spin" ? transport::ucx::Wait::spin : transport::ucx::Wait::event;
  settings.checksum =
      options.checksum ? transport::ucx::Checksum::on : transport::ucx::Checksum::off;
  return make_ucx_channel(world, settings);
}

void send(Channel& channel, int microbatch) {
  auto slot = channel.send_slot();
  slot.status().throw_if_error();
  channel.send(MicrobatchId(microbatch), *slot).throw_if_error();
}

void take(Channel& channel, int microbatch) {
  const auto deadline = mpi::Deadline::after_s(60);
  while (true) {
    auto slot = channel.poll_receive(MicrobatchId(microbatch));
    slot.status().throw_if_error();
    if (slot->has_value()) return channel.release(**slot);
    if (deadline.passed()) throw Error(ExitCode::peer_lost, "nothing came");
    sched_yield();
  }
}

/// Seconds of one step of `n` messages: there and back one by one, or all one way.
double step_s(Channel& channel, const mpi::Communicator& world, std::int64_t step, int n,
              bool ping_pong) {
  const bool first = world.rank() == 0;
  channel.begin_step(step, n).throw_if_error();
  world.barrier();
  const auto begin = transport::ucx::now_ns();
  for (int k = 0; k < n; ++k) {
    if (first) send(channel, k);
    if (!first) take(channel, k);
    if (ping_pong) {
      if (!first) send(channel, k);
      if (first) take(channel, k);
    }
  }
  if (!ping_pong) {  // the last one back tells that all have come
    if (!first) send(channel, 0);
    if (first) take(channel, 0);
  }
  channel.end_step().throw_if_error();
  return static_cast<double>(transport::ucx::now_ns() - begin) * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  mpi::Session session(&argc, &argv);
  Options options;
  CLI::App app("Latency and bandwidth of a channel between two ranks");
  app.add_option("--wire", options.wire)->check(CLI::IsMember({"ucx", "mpi"}));
  app.add_option("--device", options.device, "network device; without: shared memory");
  app.add_option("--wait", options.wait)->check(CLI::IsMember({"spin", "event"}));
  app.add_flag("--checksum", options.checksum);
  CLI11_PARSE(app, argc, argv);
  const auto world = mpi::Communicator::world(60);
  if (world.size() != 2) return 2;
  double latency_s = 0, bandwidth = 0;
  {
    const auto channel = open(world, options, 8);
    step_s(*channel, world, 1, 500, true);
    latency_s = step_s(*channel, world, 2, 3000, true) / 6000;
    world.barrier();
  }
  {
    constexpr std::size_t bytes = 10'000'000;
    const auto channel = open(world, options, bytes);
    step_s(*channel, world, 1, 10, false);
    bandwidth = 80 * static_cast<double>(bytes) / step_s(*channel, world, 2, 80, false);
    world.barrier();
  }
  if (world.rank() == 0) {
    fmt::print("latency_us {:.2f} bandwidth_mb_s {:.0f}\n", latency_s * 1e6, bandwidth / 1e6);
  }
  return 0;
}
