#include "mpi/communicator.hpp"

#include <fmt/format.h>

#include <numeric>
#include <utility>

namespace adaptra::mpi {

Communicator::Communicator(MPI_Comm comm, double deadline_s)
    : comm_(comm), deadline_s_(deadline_s) {
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
}

Communicator Communicator::world(double deadline_s) {
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return {comm, deadline_s};
}

Communicator::Communicator(Communicator&& other) noexcept
    : comm_(std::exchange(other.comm_, MPI_COMM_NULL)),
      rank_(other.rank_),
      size_(other.size_),
      deadline_s_(other.deadline_s_),
      call_pending_(other.call_pending_) {}

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  std::swap(comm_, other.comm_);
  std::swap(rank_, other.rank_);
  std::swap(size_, other.size_);
  std::swap(deadline_s_, other.deadline_s_);
  std::swap(call_pending_, other.call_pending_);
  return *this;
}

Communicator::~Communicator() {
  // With a call still pending the handle must stay; the run is about to be aborted.
  if (comm_ != MPI_COMM_NULL && !call_pending_) MPI_Comm_free(&comm_);
}

void Communicator::wait(MPI_Request& request, const char* what) const {
  const Status status = wait_all({&request, 1}, Deadline::after_s(deadline_s_), what);
  call_pending_ = !status.ok();
  status.throw_if_error();
}

Communicator Communicator::split(int color, int key) const {
  MPI_Comm comm = MPI_COMM_NULL;
  check(MPI_Comm_split(comm_, color, key, &comm), "MPI_Comm_split");
  return {comm, deadline_s_};
}

void Communicator::barrier() const {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(comm_, &request), "MPI_Ibarrier");
  wait(request, "the barrier of all ranks");
}

std::int64_t Communicator::maximum(std::int64_t value) const {
  std::int64_t result = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallreduce(&value, &result, 1, MPI_INT64_T, MPI_MAX, comm_, &request),
        "MPI_Iallreduce");
  wait(request, "the agreement of all ranks");
  return result;
}

std::vector<int> Communicator::gather_counts(int mine) const {
  std::vector<int> counts(static_cast<std::size_t>(size_));
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgather(&mine, 1, MPI_INT, counts.data(), 1, MPI_INT, comm_, &request),
        "MPI_Iallgather");
  wait(request, "gathering from all ranks");
  return counts;
}

namespace {

std::vector<int> offsets_of(const std::vector<int>& counts) {
  std::vector<int> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
  return offsets;
}

}  // namespace

std::vector<std::string> Communicator::gather_all(const std::string& mine) const {
  const auto counts = gather_counts(static_cast<int>(mine.size()));
  const auto offsets = offsets_of(counts);
  std::string all(static_cast<std::size_t>(offsets.back() + counts.back()), '\0');
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgatherv(mine.data(), static_cast<int>(mine.size()), MPI_CHAR, all.data(),
                        counts.data(), offsets.data(), MPI_CHAR, comm_, &request),
        "MPI_Iallgatherv");
  wait(request, "gathering text from all ranks");
  std::vector<std::string> parts;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    parts.push_back(
        all.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(counts[r])));
  }
  return parts;
}

std::vector<std::vector<double>> Communicator::gather_all(std::span<const double> mine) const {
  const auto counts = gather_counts(static_cast<int>(mine.size()));
  const auto offsets = offsets_of(counts);
  std::vector<double> all(static_cast<std::size_t>(offsets.back() + counts.back()));
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgatherv(mine.data(), static_cast<int>(mine.size()), MPI_DOUBLE, all.data(),
                        counts.data(), offsets.data(), MPI_DOUBLE, comm_, &request),
        "MPI_Iallgatherv");
  wait(request, "gathering numbers from all ranks");
  std::vector<std::vector<double>> parts;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    const auto begin = all.begin() + offsets[r];
    parts.emplace_back(begin, begin + counts[r]);
  }
  return parts;
}

std::string Communicator::broadcast(const std::string& text, int root) const {
  int length = static_cast<int>(text.size());
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibcast(&length, 1, MPI_INT, root, comm_, &request), "MPI_Ibcast");
  wait(request, "a broadcast");
  std::string result = rank_ == root ? text : std::string(static_cast<std::size_t>(length), '\0');
  check(MPI_Ibcast(result.data(), length, MPI_CHAR, root, comm_, &request), "MPI_Ibcast");
  wait(request, "a broadcast");
  return result;
}

}  // namespace adaptra::mpi
