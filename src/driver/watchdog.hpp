#pragma once
// A thread that notices what the main thread cannot: that a rank on this host has died while the
// others compute or wait. It writes the post-mortem, says which rank is gone in the last line of
// standard error and ends this process; the launcher ends the rest.
//
// Ranks on other hosts are noticed by the deadlines of the waits for them; a launcher that sees a
// death sends TERM, on which the watchdog records what this rank was doing.

#include "core/progress.hpp"

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace adaptra::driver {

/// A process on this host to watch.
struct WatchedPeer {
  int pid = 0;
  std::string describe;  ///< "rank 3 (node07, replica 0, stage 3)"
};

class Watchdog {
 public:
  struct Settings {
    std::string self;                   ///< this rank, as in WatchedPeer
    std::vector<WatchedPeer> peers;     ///< the other ranks of this host
    std::filesystem::path post_mortem;  ///< file that the report is appended to
    int speaks_first = 0;  ///< index among the host's ranks; 0 speaks at once, others wait
  };

  /// Starts the thread. `progress` must outlive the watchdog.
  Watchdog(Settings settings, const Progress& progress);
  /// Stops it; takes at most one poll (50 ms).
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch();
  void note_own_state(const std::string& why) const;
  [[noreturn]] void peer_died(const WatchedPeer& peer) const;

  Settings settings_;
  const Progress& progress_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// True while the process exists and is not a zombie.
bool process_alive(int pid);

/// Appends one line with time and newline to a file, in one write.
void append_line(const std::filesystem::path& file, const std::string& line);

}  // namespace adaptra::driver
