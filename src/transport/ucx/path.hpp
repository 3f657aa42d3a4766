#pragma once
// Which ways two processes have to each other: shared memory within a host, otherwise one rail per
// network device. Rail i of one end is joined to rail i of the other. Pure, except for what asks
// the system.

#include <string>
#include <vector>

namespace adaptra::transport::ucx {

struct Path {
  enum class Kind { shared_memory, network };
  Kind kind = Kind::shared_memory;
  std::string device;  ///< network: as UCX names it, "eth0" or "mlx5_0:1"

  /// "shared memory", "tcp on eth0", "rdma on mlx5_0:1".
  std::string describe() const;
};

/// How processes on one host reach each other.
enum class SameHost { shared_memory, network };

/// What a process tells its peer before they choose.
struct Identity {
  std::string host;  ///< equal where /dev/shm is shared: host name and IPC namespace
  std::vector<std::string> devices;

  std::string to_text() const;
  /// Throws Error{internal} where it is no identity.
  static Identity from_text(const std::string& text);
};

/// This process. `devices` as in the deck; empty: all that find_devices() gives.
Identity this_process(const std::vector<std::string>& devices);

/// Active RDMA ports; where there are none, network devices that are up, without loopback, bridges
/// and devices of containers.
std::vector<std::string> find_devices();

/// This end's paths to the peer, in rail order. Throws Error{environment} where there is none.
std::vector<Path> choose_paths(const Identity& mine, const Identity& theirs, SameHost same_host);

}  // namespace adaptra::transport::ucx
