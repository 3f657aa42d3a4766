#include "mpi/session.hpp"

#include "core/error.hpp"
#include "mpi/wait.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <array>
#include <cstdlib>
#include <string>

namespace adaptra::mpi {

Session::Session(int* argc, char*** argv) {
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
    throw Error(ExitCode::environment, "MPI_Init_thread failed: see the launcher's message above");
  }
  if (provided < MPI_THREAD_FUNNELED) {
    throw Error(
        ExitCode::environment,
        "this MPI gives MPI_THREAD_SINGLE, Adaptra needs MPI_THREAD_FUNNELED (threads beside "
        "the one that calls MPI): use an MPI built with thread support");
  }
  // Errors come back as codes, so that they can be explained.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
}

Session::~Session() {
  MPI_Finalize();
}

std::string Session::library() const {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string all(text.data(), static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

void Session::abort(int code) {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);  // MPI_Abort may return where the launcher is gone
}

std::string lonely_rank_problem(int world_size) {
  if (world_size > 1) return {};
  for (const char* name : {"SLURM_NTASKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"}) {
    const char* text = std::getenv(name);
    if (text == nullptr || std::atoi(text) <= 1) continue;
    // Inside a batch script SLURM_NTASKS describes the allocation; only a step has a task id.
    if (std::string(name) == "SLURM_NTASKS" && std::getenv("SLURM_PROCID") == nullptr) continue;
    return fmt::format(
        "{}={} but MPI sees a single rank: each of the {} processes would train the whole model "
        "and "
        "overwrite the others' files; start it with 'srun --mpi=pmix' or 'mpirun' (or pass "
        "--single "
        "to run one process on purpose)",
        name, text, text);
  }
  return {};
}

}  // namespace adaptra::mpi
