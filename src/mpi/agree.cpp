#include "mpi/agree.hpp"

#include <exception>
#include <optional>

namespace adaptra::mpi {
namespace {

std::optional<Error> attempt(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ExitCode::environment, "out of memory");
  } catch (const std::exception& error) {
    return Error(ExitCode::internal, error.what());
  }
}

}  // namespace

void agree(const Communicator& comm, const std::function<void()>& work) {
  const auto failure = attempt(work);
  // The lowest failing rank wins: encoded so that the maximum finds it, with its exit code.
  constexpr std::int64_t codes = 256;
  const std::int64_t mine = failure ? (std::int64_t{comm.size()} - comm.rank()) * codes +
                                          static_cast<int>(failure->code())
                                    : 0;
  const std::int64_t worst = comm.maximum(mine);
  if (worst == 0) return;
  const int culprit = comm.size() - static_cast<int>(worst / codes);
  if (culprit == comm.rank()) throw Error(*failure);
  throw ElsewhereError(static_cast<ExitCode>(worst % codes), culprit,
                       "rank " + std::to_string(culprit) + " failed");
}

}  // namespace adaptra::mpi
