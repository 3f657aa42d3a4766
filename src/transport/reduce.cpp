#include "transport/reduce.hpp"

#include <algorithm>

namespace adaptra::transport {
namespace {

constexpr int reduce_tag = 1, gather_tag = 2, exchange_tag = 3;
constexpr std::size_t exchange_chunk = std::size_t{1} << 24;

Status posted(int code) {
  if (code == MPI_SUCCESS) return {};
  return Error(ExitCode::peer_lost, "an MPI transfer failed with error " + std::to_string(code));
}

}  // namespace

Reducer::Reducer(const mpi::Communicator& comm, std::size_t chunk_elements)
    : comm_(comm), chunk_elements_(chunk_elements) {
  if (comm.size() > 1) received_.resize(chunk_elements + static_cast<std::size_t>(comm.size()));
}

Status Reducer::sum(std::span<float> values) {
  if (comm_.size() == 1) return {};
  for (std::size_t begin = 0; begin < values.size(); begin += chunk_elements_) {
    const auto chunk = values.subspan(begin, std::min(chunk_elements_, values.size() - begin));
    if (Status s = sum_chunk(chunk); !s.ok()) return s;
  }
  return {};
}

Status Reducer::sum_chunk(std::span<float> values) {
  const auto ranks = static_cast<std::size_t>(comm_.size());
  const auto me = static_cast<std::size_t>(comm_.rank());
  const std::size_t share = (values.size() + ranks - 1) / ranks;
  const auto share_of = [&](std::size_t rank) {
    const std::size_t begin = std::min(values.size(), rank * share);
    return values.subspan(begin, std::min(share, values.size() - begin));
  };
  const auto mine = share_of(me);
  std::vector<MPI_Request> requests;
  const auto post = [&](auto call, float* data, std::size_t count, std::size_t peer, int tag) {
    requests.push_back(MPI_REQUEST_NULL);
    return posted(call(data, static_cast<int>(count), MPI_FLOAT, static_cast<int>(peer), tag,
                       comm_.handle(), &requests.back()));
  };
  const auto receive = [](auto... a) { return MPI_Irecv(a...); };
  const auto transmit = [](auto... a) { return MPI_Isend(a...); };
  const auto deadline = mpi::Deadline::after_s(comm_.deadline_s());

  // Every rank's version of my share, side by side.
  requests.reserve(2 * ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r == me) continue;
    if (Status s = post(receive, received_.data() + r * share, mine.size(), r, reduce_tag);
        !s.ok()) {
      return s;
    }
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r == me) continue;
    const auto theirs = share_of(r);
    if (Status s = post(transmit, theirs.data(), theirs.size(), r, reduce_tag); !s.ok()) return s;
  }
  if (Status s = mpi::wait_all(requests, deadline, "the reduction of gradients"); !s.ok()) return s;

  const auto version = [&](std::size_t rank, std::size_t i) {
    return rank == me ? mine[i] : received_[rank * share + i];
  };
  for (std::size_t i = 0; i < mine.size(); ++i) {
    float sum = version(0, i);
    for (std::size_t r = 1; r < ranks; ++r) sum += version(r, i);
    mine[i] = sum;
  }

  requests.clear();
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r == me) continue;
    const auto theirs = share_of(r);
    if (Status s = post(receive, theirs.data(), theirs.size(), r, gather_tag); !s.ok()) return s;
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r == me) continue;
    if (Status s = post(transmit, mine.data(), mine.size(), r, gather_tag); !s.ok()) return s;
  }
  return mpi::wait_all(requests, deadline, "the gathering of gradients");
}

Status exchange(const mpi::Communicator& comm, int peer, std::span<const float> mine,
                std::span<float> theirs) {
  const auto deadline = mpi::Deadline::after_s(comm.deadline_s());
  for (std::size_t begin = 0; begin < mine.size(); begin += exchange_chunk) {
    const std::size_t count = std::min(exchange_chunk, mine.size() - begin);
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    if (Status s = posted(MPI_Irecv(theirs.data() + begin, static_cast<int>(count), MPI_FLOAT, peer,
                                    exchange_tag, comm.handle(), &requests[0]));
        !s.ok()) {
      return s;
    }
    if (Status s = posted(MPI_Isend(mine.data() + begin, static_cast<int>(count), MPI_FLOAT, peer,
                                    exchange_tag, comm.handle(), &requests[1]));
        !s.ok()) {
      return s;
    }
    if (Status s =
            mpi::wait_all(requests, deadline, "the exchange of the tied embedding's gradient");
        !s.ok()) {
      return s;
    }
  }
  return {};
}

}  // namespace adaptra::transport
