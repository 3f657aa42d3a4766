#include "transport/ucx/path.hpp"

#include "core/error.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace adaptra::transport::ucx {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_rdma(const std::string& device) {
  return device.find(':') != std::string::npos;
}

}  // namespace

std::string Path::describe() const {
  if (kind == Kind::shared_memory) return "shared memory";
  return fmt::format("{} on {}", is_rdma(device) ? "rdma" : "tcp", device);
}

std::string Identity::to_text() const {
  return host + "\n" + fmt::format("{}", fmt::join(devices, "\n"));
}

Identity Identity::from_text(const std::string& text) {
  Identity identity;
  std::istringstream in(text);
  if (!std::getline(in, identity.host)) {
    throw Error(ExitCode::internal, "the peer sent no identity");
  }
  for (std::string device; std::getline(in, device);) identity.devices.push_back(device);
  return identity;
}

Identity this_process(const std::vector<std::string>& devices) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::error_code none;
  const auto ipc = fs::read_symlink("/proc/self/ns/ipc", none);
  return {fmt::format("{} {}", host.data(), ipc.string()),
          devices.empty() ? find_devices() : devices};
}

std::vector<std::string> find_devices() {
  std::vector<std::string> found;
  const fs::path rdma = "/sys/class/infiniband";
  for (const auto& name : names_in(rdma)) {
    for (const auto& port : names_in(rdma / name / "ports")) {
      const auto state = first_line(rdma / name / "ports" / port / "state");
      if (state.find("ACTIVE") != std::string::npos)
        found.push_back(fmt::format("{}:{}", name, port));
    }
  }
  if (!found.empty()) return found;
  const fs::path net = "/sys/class/net";
  for (const auto& name : names_in(net)) {
    const bool container = name.starts_with("docker") || name.starts_with("virbr") ||
                           name.starts_with("cni") || name.starts_with("br-");
    if (name == "lo" || container || fs::exists(net / name / "bridge")) continue;
    if (first_line(net / name / "operstate") == "up") found.push_back(name);
  }
  return found;
}

std::vector<Path> choose_paths(const Identity& mine, const Identity& theirs, SameHost same_host) {
  if (mine.host == theirs.host && same_host == SameHost::shared_memory) {
    return {{Path::Kind::shared_memory, ""}};
  }
  const std::size_t rails = std::min(mine.devices.size(), theirs.devices.size());
  if (rails == 0) {
    throw Error(ExitCode::environment,
                fmt::format("no network device on {}: name the rails in transport.rails",
                            mine.devices.empty() ? "this host" : "the peer's host"));
  }
  std::vector<Path> paths;
  for (std::size_t r = 0; r < rails; ++r) {
    paths.push_back({Path::Kind::network, mine.devices[r]});
  }
  return paths;
}

}  // namespace adaptra::transport::ucx
