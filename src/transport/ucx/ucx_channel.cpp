#include "transport/ucx/ucx_channel.hpp"

#include "mpi/wait.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <cstdlib>
#include <cstring>

namespace adaptra::transport {
namespace {

using ucx::Command;
using ucx::Notice;

const char* name_of(Direction direction) {
  return direction == Direction::forward ? "activation" : "gradient";
}

Direction opposite(Direction direction) {
  return direction == Direction::forward ? Direction::backward : Direction::forward;
}

/// Both ranks call it: gives mine, returns the peer's.
std::string swap_texts(const mpi::Communicator& comm, int peer, int tag, const std::string& mine,
                       double deadline_s, const std::string& what) {
  const auto deadline = mpi::Deadline::after_s(deadline_s);
  std::uint64_t size = mine.size(), peer_size = 0;
  const auto both = [&](const void* out, std::size_t out_bytes, void* in, std::size_t in_bytes) {
    MPI_Request requests[2];
    mpi::check(
        MPI_Irecv(in, static_cast<int>(in_bytes), MPI_BYTE, peer, tag, comm.handle(), &requests[0]),
        "MPI_Irecv");
    mpi::check(MPI_Isend(out, static_cast<int>(out_bytes), MPI_BYTE, peer, tag, comm.handle(),
                         &requests[1]),
               "MPI_Isend");
    mpi::wait_all(requests, deadline, what).throw_if_error();
  };
  both(&size, sizeof(size), &peer_size, sizeof(peer_size));
  std::string theirs(peer_size, '\0');
  both(mine.data(), mine.size(), theirs.data(), theirs.size());
  return theirs;
}

std::string pack(const std::vector<std::string>& parts) {
  std::string all;
  for (const auto& part : parts) {
    const std::uint64_t size = part.size();
    all.append(reinterpret_cast<const char*>(&size), sizeof(size));
    all += part;
  }
  return all;
}

std::vector<std::string> unpack(const std::string& all) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= all.size();) {
    std::uint64_t size = 0;
    std::memcpy(&size, all.data() + at, sizeof(size));
    at += sizeof(size);
    parts.push_back(all.substr(at, size));
    at += size;
  }
  return parts;
}

}  // namespace

UcxChannel::UcxChannel(const ucx::LinkSettings& settings, const faults::Schedule* faults)
    : settings_(settings),
      faults_(faults),
      stride_(ucx::slot_stride(settings.message_bytes)),
      out_(static_cast<std::size_t>(settings.send_slots)) {
  const std::size_t bytes =
      static_cast<std::size_t>(settings.send_slots + settings.receive_slots) * stride_;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)));
  if (memory_ == nullptr) {
    throw Error(ExitCode::environment,
                fmt::format("{}: no memory for {} slots of {} bytes", settings.describe(),
                            settings.send_slots + settings.receive_slots, settings.message_bytes));
  }
  delegate_ = std::make_unique<ucx::Delegate>(settings_, std::span(memory_.get(), bytes));
}

UcxChannel::~UcxChannel() = default;

std::string UcxChannel::path() const {
  std::string all;
  for (const auto& path : settings_.paths) all += (all.empty() ? "" : ", ") + path.describe();
  return all;
}

Slot UcxChannel::slot(int pool_index, int index) const {
  return {std::span(memory_.get() + static_cast<std::size_t>(pool_index) * stride_,
                    settings_.message_bytes),
          index};
}

Error UcxChannel::late(const char* what, Direction direction, int microbatch) const {
  const std::string of = microbatch >= 0 ? fmt::format(" of microbatch {}", microbatch) : "";
  return {ExitCode::peer_lost, fmt::format("{}: {}{} {} within {:g} s", describe(),
                                           name_of(direction), of, what, settings_.deadline_s)};
}

void UcxChannel::take_notices() {
  while (const auto notice = delegate_->pop()) {
    if (notice->kind == Notice::Kind::arrived) {
      const std::pair key{notice->round, notice->microbatch};
      MessageRecord record{notice->step,
                           notice->microbatch,
                           opposite(settings_.sends),
                           notice->rail,
                           notice->attempt,
                           0,
                           0,
                           0,
                           notice->at_ns,
                           0};
      arrived_[key] = record;
      arrived_slot_[key] = notice->slot;
      continue;
    }
    SendSlot& out = out_[static_cast<std::size_t>(notice->slot)];
    out.record.rail = notice->rail;
    out.record.attempt = notice->attempt;
    out.record.posted_ns = notice->posted_ns;
    if (notice->kind == Notice::Kind::left) {
      out.left = true;
      out.record.left_ns = notice->at_ns;
    } else {
      records_.push_back(out.record);
      out.state = SendSlot::State::free;
    }
  }
}

template <typename Done>
Status UcxChannel::wait_until(Done done, const char* what, int microbatch) {
  const auto deadline = mpi::Deadline::after_s(settings_.deadline_s);
  mpi::Backoff backoff;
  while (true) {
    // Failure first, then notices: all that was said before the link failed is seen.
    const auto failure = delegate_->failure();
    take_notices();
    if (done()) return {};
    if (failure) return *failure;
    if (deadline.passed()) return late(what, settings_.sends, microbatch);
    if (settings_.wait == ucx::Wait::event) {
      backoff.pause();
    } else {
      sched_yield();
    }
  }
}

Status UcxChannel::push(const Command& command) {
  if (delegate_->push(command)) return {};
  return wait_until([&] { return delegate_->push(command); }, "was not taken by the delegate",
                    command.microbatch);
}

Status UcxChannel::begin_step(std::int64_t step, int) {
  if (auto failure = delegate_->failure()) return *failure;
  step_ = step;
  ++round_;
  Command command;
  command.kind = Command::Kind::begin_step;
  command.step = step;
  if (faults_ != nullptr) {
    command.condition = faults_->on_link(settings_.link, settings_.way(), step);
  }
  return push(command);
}

Result<Slot> UcxChannel::send_slot() {
  int found = -1;
  const auto look = [&] {
    for (std::size_t i = 0; i < out_.size() && found < 0; ++i) {
      if (out_[i].state == SendSlot::State::free) found = static_cast<int>(i);
    }
    return found >= 0;
  };
  take_notices();
  if (!look()) {
    ++blocked_sends_;
    if (Status s = wait_until(look, "found no send slot free", -1); !s.ok()) return s.error();
  }
  out_[static_cast<std::size_t>(found)].state = SendSlot::State::filling;
  return slot(found, found);
}

Status UcxChannel::send(MicrobatchId microbatch, Slot slot) {
  SendSlot& out = out_[static_cast<std::size_t>(slot.index)];
  out.state = SendSlot::State::on_the_way;
  out.left = false;
  out.record = {};
  out.record.step = step_;
  out.record.microbatch = microbatch.value;
  out.record.direction = settings_.sends;
  out.record.handed_ns = ucx::now_ns();
  Command command;
  command.kind = Command::Kind::send;
  command.step = step_;
  command.round = round_;
  command.microbatch = microbatch.value;
  command.slot = slot.index;
  command.handed_ns = out.record.handed_ns;
  return push(command);
}

Status UcxChannel::wait_left(MicrobatchId microbatch) {
  for (const SendSlot& out : out_) {
    if (out.state != SendSlot::State::on_the_way || out.left) continue;
    if (out.record.step != step_ || out.record.microbatch != microbatch.value) continue;
    return wait_until([&] { return out.left || out.state == SendSlot::State::free; },
                      "did not leave", microbatch.value);
  }
  return {};
}

Result<std::optional<Slot>> UcxChannel::poll_receive(MicrobatchId microbatch) {
  const auto failure = delegate_->failure();
  take_notices();
  const auto it = arrived_slot_.find({round_, microbatch.value});
  if (it != arrived_slot_.end()) {
    return std::optional<Slot>(slot(settings_.send_slots + it->second, it->second));
  }
  if (failure) return *failure;
  return std::optional<Slot>();
}

void UcxChannel::release(Slot slot) {
  for (auto it = arrived_slot_.begin(); it != arrived_slot_.end(); ++it) {
    if (it->second != slot.index) continue;
    const auto record = arrived_.find(it->first);
    record->second.consumed_ns = ucx::now_ns();
    records_.push_back(record->second);
    arrived_.erase(record);
    arrived_slot_.erase(it);
    break;
  }
  Command command;
  command.kind = Command::Kind::release;
  command.slot = slot.index;
  // Where the delegate is gone nobody needs the slot; the next call that can fail tells.
  if (!push(command).ok()) return;
}

Status UcxChannel::end_step() {
  return wait_until(
      [&] {
        for (const SendSlot& out : out_) {
          if (out.state == SendSlot::State::on_the_way && !out.left) return false;
        }
        return true;
      },
      "did not all leave", -1);
}

std::unique_ptr<UcxChannel> make_ucx_channel(const mpi::Communicator& comm,
                                             const UcxChannelSettings& settings) {
  constexpr int first_tag = 20000;  // above those of the MPI wire's microbatches in use
  const int tag = first_tag + settings.link.value;
  ucx::LinkSettings link;
  link.link = settings.link;
  link.sends = settings.sends;
  link.peer = settings.peer;
  link.message_bytes = settings.message_bytes;
  link.send_slots = settings.send_slots;
  link.receive_slots = settings.receive_slots;
  link.deadline_s = settings.deadline_s;
  link.rail_deadline_s = settings.rail_deadline_s;
  link.wait = settings.wait;
  link.checksum = settings.checksum;
  const std::string what = link.describe() + ": exchange of addresses";
  const auto swap = [&](const std::string& mine) {
    return swap_texts(comm, settings.peer, tag, mine, settings.deadline_s, what);
  };
  const auto mine = ucx::this_process(settings.rails);
  const auto theirs = ucx::Identity::from_text(swap(mine.to_text()));
  link.paths = ucx::choose_paths(mine, theirs, settings.same_host);
  // Whatever fails here, the peer hears of it instead of waiting.
  std::unique_ptr<UcxChannel> channel;
  std::string addresses;
  try {
    channel = std::make_unique<UcxChannel>(link, settings.faults);
    addresses = pack(channel->addresses());
  } catch (const Error& error) {
    swap(std::string("!") + error.what());
    throw;
  }
  const std::string answer = swap("=" + addresses);
  if (!answer.starts_with('=')) {
    throw Error(ExitCode::environment, fmt::format("{}: the peer could not open its end: {}",
                                                   link.describe(), answer.substr(1)));
  }
  channel->connect(unpack(answer.substr(1)));
  return channel;
}

}  // namespace adaptra::transport
