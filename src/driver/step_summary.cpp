#include "driver/step_summary.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace adaptra::driver {

StepSummary agree_on_step(const mpi::Communicator& world, const RankSummary& mine,
                          std::int64_t tokens_per_step) {
  std::vector<double> packed = {static_cast<double>(mine.replica), static_cast<double>(mine.stop),
                                static_cast<double>(mine.memory_bytes), mine.loss_sum,
                                mine.save ? 1.0 : 0.0};
  for (const auto& [index, square] : mine.squares) {
    packed.push_back(index);
    packed.push_back(square);
  }
  StepSummary step;
  double loss = 0;
  std::map<int, double> squares;
  for (const auto& part : world.gather_all(packed)) {
    step.stop = std::max(step.stop, static_cast<StopRequest>(part[1]));
    step.memory_bytes = std::max(step.memory_bytes, static_cast<std::int64_t>(part[2]));
    loss += part[3];
    step.save = step.save || part[4] != 0;
    if (part[0] != 0) continue;  // after the reduction all replicas have the same gradients
    for (std::size_t i = 5; i + 1 < part.size(); i += 2) {
      squares[static_cast<int>(part[i])] = part[i + 1];
    }
  }
  double total = 0;
  for (const auto& [index, square] : squares) {
    total += square;
    if (!std::isfinite(square) && step.first_bad_parameter < 0) step.first_bad_parameter = index;
  }
  step.loss = loss / static_cast<double>(tokens_per_step);
  step.norm = std::sqrt(total);
  step.finite = std::isfinite(step.loss) && std::isfinite(step.norm);
  return step;
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace adaptra::driver
