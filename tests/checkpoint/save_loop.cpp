// save_loop FOLDER LAST_STEP MODE: goes on from the newest good checkpoint and saves every step.
// Ends with 0 after LAST_STEP; 9 where what it resumed from is not what was saved.

#include "checkpoint/fixture.hpp"
#include "checkpoint/writer.hpp"
#include "core/error.hpp"
#include "mpi/session.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int argc, char** argv) {
  using namespace adaptra;
  mpi::Session session(&argc, &argv);
  if (argc < 4) return 2;
  try {
    const auto world = mpi::Communicator::world(60);
    const std::filesystem::path folder = argv[1];
    const std::int64_t last = std::atoll(argv[2]);
    testing_support::FakeModel model(world.rank(), world.size(), 4000);
    checkpoint::Settings settings;
    settings.retention.keep_last = 2;
    if (std::strcmp(argv[3], "blocking") == 0) settings.timing = checkpoint::Timing::blocking;
    if (std::strcmp(argv[3], "collective") == 0) {
      settings.method = checkpoint::Method::hdf5_collective;
    }
    const auto latest = checkpoint::find_latest(world, folder);
    if (latest.file) {
      const auto loaded = checkpoint::load(world, *latest.file, model.parts());
      if (loaded.state != testing_support::state_at(latest.step) ||
          !model.difference(latest.step).empty()) {
        std::fprintf(stderr, "rank %d: step %lld is not as saved\n", world.rank(),
                     static_cast<long long>(latest.step));
        return 9;
      }
    }
    if (world.rank() == 0) {
      std::printf("resumed at %lld, skipped %zu\n", static_cast<long long>(latest.step),
                  latest.skipped.size());
      std::fflush(stdout);
    }
    checkpoint::Writer writer(world, folder, settings);
    for (std::int64_t step = latest.step + 1; step <= last; ++step) {
      model.fill(step);
      writer.start(step, model.parts(), testing_support::state_at(step));
      model.clear();  // the copy is what counts
      writer.finish();
      if (world.rank() == 0) {
        std::printf("saved %lld\n", static_cast<long long>(step));
        std::fflush(stdout);
      }
    }
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "rank %d: %s\n", session.rank(), error.what());
    session.abort(static_cast<int>(error.code()));
  }
}
