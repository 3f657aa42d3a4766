#include "driver/watchdog.hpp"

#include "core/error.hpp"
#include "driver/signals.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>

namespace adaptra::driver {
namespace {

constexpr auto poll_interval = std::chrono::milliseconds(50);

}  // namespace

bool process_alive(int pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(stat, line)) return false;
  // "pid (name) state ...": the name may hold anything, so look behind the last bracket.
  const auto bracket = line.rfind(')');
  return bracket == std::string::npos || bracket + 2 >= line.size() ||
         (line[bracket + 2] != 'Z' && line[bracket + 2] != 'X');
}

void append_line(const std::filesystem::path& file, const std::string& line) {
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return;  // the report is on standard error as well
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const std::string text = fmt::format("{:%FT%TZ} {}\n", fmt::gmtime(now), line);
  [[maybe_unused]] const auto written = write(fd, text.data(), text.size());
  close(fd);
}

Watchdog::Watchdog(Settings settings, const Progress& progress)
    : settings_(std::move(settings)), progress_(progress) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  stop_ = true;
  thread_.join();
}

void Watchdog::watch() {
  bool noted_stop = false;
  while (!stop_) {
    for (const auto& peer : settings_.peers) {
      if (!process_alive(peer.pid) && !stop_) peer_died(peer);
    }
    if (!noted_stop && stop_requested_by_signal() == StopRequest::by_request) {
      noted_stop = true;
      note_own_state("asked to stop");
    }
    std::this_thread::sleep_for(poll_interval);
  }
}

void Watchdog::note_own_state(const std::string& why) const {
  append_line(settings_.post_mortem,
              fmt::format("{}: {}; it was in: {}", settings_.self, why, progress_.describe()));
}

void Watchdog::peer_died(const WatchedPeer& peer) const {
  note_own_state(fmt::format("saw that {} is gone", peer.describe));
  // One voice per host: the others leave it the time to speak before the launcher ends them.
  std::this_thread::sleep_for(settings_.speaks_first * poll_interval * 2);
  if (stop_) std::_Exit(static_cast<int>(ExitCode::peer_lost));
  const std::string line = fmt::format(
      "error: {}, pid {}, died (killed, out of memory or crashed); noticed by {} in: {}; "
      "the run ends, see {}\n",
      peer.describe, peer.pid, settings_.self, progress_.describe(),
      settings_.post_mortem.string());
  append_line(settings_.post_mortem, line.substr(0, line.size() - 1));
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  std::_Exit(static_cast<int>(ExitCode::peer_lost));
}

}  // namespace adaptra::driver
