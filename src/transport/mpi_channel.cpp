#include "transport/mpi_channel.hpp"

#include <fmt/format.h>

#include <limits>
#include <vector>

namespace adaptra::transport {
namespace {

const char* name_of(Direction direction) {
  return direction == Direction::forward ? "activation" : "gradient";
}

Direction opposite(Direction direction) {
  return direction == Direction::forward ? Direction::backward : Direction::forward;
}

/// Slots of one direction, with one MPI request each.
struct SlotPool {
  std::vector<std::byte> memory;
  std::vector<MPI_Request> requests;
  std::vector<int> microbatch;  ///< whose message the slot holds; -1: free
  std::size_t bytes = 0;

  SlotPool(int slots, std::size_t message_bytes)
      : memory(static_cast<std::size_t>(slots) * message_bytes),
        requests(static_cast<std::size_t>(slots), MPI_REQUEST_NULL),
        microbatch(static_cast<std::size_t>(slots), -1),
        bytes(message_bytes) {}
  int count() const { return static_cast<int>(requests.size()); }
  Slot slot(int index) {
    return {std::span(memory).subspan(static_cast<std::size_t>(index) * bytes, bytes), index};
  }
  int find(int wanted) const {
    for (std::size_t i = 0; i < microbatch.size(); ++i) {
      if (microbatch[i] == wanted) return static_cast<int>(i);
    }
    return -1;
  }
};

class MpiChannel final : public Channel {
 public:
  MpiChannel(const mpi::Communicator& comm, const MpiChannelSettings& settings)
      : comm_(comm.handle()),
        settings_(settings),
        out_(settings.send_slots, settings.message_bytes),
        in_(settings.receive_slots, settings.message_bytes) {}

  ~MpiChannel() override {
    // After an error requests may be pending: cancel the receives, MPI's abort ends the sends.
    for (auto& request : in_.requests) {
      if (request != MPI_REQUEST_NULL) {
        MPI_Cancel(&request);
        MPI_Request_free(&request);
      }
    }
  }

  std::string describe() const override {
    const int stage = settings_.link.value + (settings_.sends == Direction::forward ? 1 : 0);
    return fmt::format("link {} to stage {} (rank {} of the pipeline)", settings_.link.value, stage,
                       settings_.peer);
  }

  std::string path() const override { return "MPI"; }

  Status begin_step(std::int64_t, int expected) override {
    expected_ = expected;
    next_receive_ = 0;
    return post_receives();
  }

  Result<Slot> send_slot() override {
    const auto deadline = mpi::Deadline::after_s(settings_.deadline_s);
    mpi::Backoff backoff;
    while (true) {
      for (int i = 0; i < out_.count(); ++i) {
        auto& request = out_.requests[static_cast<std::size_t>(i)];
        if (request != MPI_REQUEST_NULL) {
          if (Status s = test(request); !s.ok()) return s.error();
        }
        if (request == MPI_REQUEST_NULL &&
            out_.microbatch[static_cast<std::size_t>(i)] != filling) {
          out_.microbatch[static_cast<std::size_t>(i)] = filling;
          return out_.slot(i);
        }
      }
      if (deadline.passed()) return late("no send slot became free", settings_.sends, -1);
      backoff.pause();
    }
  }

  Status send(MicrobatchId microbatch, Slot slot) override {
    const auto i = static_cast<std::size_t>(slot.index);
    out_.microbatch[i] = microbatch.value;
    return posted(
        MPI_Isend(slot.memory.data(), static_cast<int>(slot.memory.size()), MPI_BYTE,
                  settings_.peer, tag(settings_.sends, microbatch.value), comm_, &out_.requests[i]),
        "MPI_Isend");
  }

  Status wait_left(MicrobatchId microbatch) override {
    const int i = out_.find(microbatch.value);
    if (i < 0) return {};
    return wait_for(out_.requests[static_cast<std::size_t>(i)], microbatch.value);
  }

  Result<std::optional<Slot>> poll_receive(MicrobatchId microbatch) override {
    if (Status s = post_receives(); !s.ok()) return s.error();
    const int i = in_.find(microbatch.value);
    if (i < 0) return std::optional<Slot>();
    auto& request = in_.requests[static_cast<std::size_t>(i)];
    if (request != MPI_REQUEST_NULL) {
      if (Status s = test(request); !s.ok()) return s.error();
    }
    if (request != MPI_REQUEST_NULL) return std::optional<Slot>();
    return std::optional<Slot>(in_.slot(i));
  }

  void release(Slot slot) override {
    in_.microbatch[static_cast<std::size_t>(slot.index)] = -1;
    // The next receive is posted at the next call that can report a failure.
  }

  Status end_step() override {
    for (std::size_t i = 0; i < out_.requests.size(); ++i) {
      if (Status s = wait_for(out_.requests[i], out_.microbatch[i]); !s.ok()) return s;
      out_.microbatch[i] = -1;
    }
    return {};
  }

 private:
  static constexpr int filling = -2;

  static int tag(Direction direction, int microbatch) {
    return 2 * microbatch + (direction == Direction::forward ? 0 : 1);
  }

  Status posted(int code, const char* call) const {
    if (code == MPI_SUCCESS) return {};
    return Error(ExitCode::peer_lost,
                 fmt::format("{}: {} failed with MPI error {}", describe(), call, code));
  }

  Status test(MPI_Request& request) const {
    int done = 0;
    return posted(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  }

  Status wait_for(MPI_Request& request, int microbatch) {
    const auto deadline = mpi::Deadline::after_s(settings_.deadline_s);
    mpi::Backoff backoff;
    while (request != MPI_REQUEST_NULL) {
      if (Status s = test(request); !s.ok()) return s;
      if (request == MPI_REQUEST_NULL) break;
      // The peer may be in the same wait: our own receives must go on.
      if (Status s = post_receives(); !s.ok()) return s;
      if (deadline.passed()) return late("did not leave", settings_.sends, microbatch);
      backoff.pause();
    }
    return {};
  }

  Status post_receives() {
    for (int i = 0; i < in_.count() && next_receive_ < expected_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (in_.microbatch[at] != -1) continue;
      in_.microbatch[at] = next_receive_;
      const Slot slot = in_.slot(i);
      if (Status s =
              posted(MPI_Irecv(slot.memory.data(), static_cast<int>(slot.memory.size()), MPI_BYTE,
                               settings_.peer, tag(opposite(settings_.sends), next_receive_), comm_,
                               &in_.requests[at]),
                     "MPI_Irecv");
          !s.ok()) {
        return s;
      }
      ++next_receive_;
    }
    return {};
  }

  Error late(const char* what, Direction direction, int microbatch) const {
    const std::string of = microbatch >= 0 ? fmt::format(" of microbatch {}", microbatch) : "";
    return Error(ExitCode::peer_lost,
                 fmt::format("{}: {}{} {} within {:g} s", describe(), name_of(direction), of, what,
                             settings_.deadline_s));
  }

  MPI_Comm comm_;
  MpiChannelSettings settings_;
  SlotPool out_, in_;
  int expected_ = 0;
  int next_receive_ = 0;
};

}  // namespace

std::unique_ptr<Channel> make_mpi_channel(const mpi::Communicator& comm,
                                          const MpiChannelSettings& settings) {
  if (settings.message_bytes > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw Error(ExitCode::usage,
                fmt::format("a message of {} bytes is more than MPI sends at once (2 GiB): use "
                            "smaller microbatches",
                            settings.message_bytes));
  }
  return std::make_unique<MpiChannel>(comm, settings);
}

}  // namespace adaptra::transport
