// Longer than a file should be: the parts of one state machine, which only make sense together.
#include "transport/ucx/protocol.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <thread>

namespace adaptra::transport::ucx {
namespace {

constexpr std::int64_t first_probe_pause_ns = 100'000'000;
constexpr std::int64_t longest_probe_pause_ns = 5'000'000'000;
constexpr std::int64_t opening_limit_ns = 1'000'000'000;
// A message may hold up the pings behind it: a rail that moves at least this much is not dead.
constexpr double slowest_bytes_per_s = 5e6;

std::int64_t to_ns(double seconds) {
  return std::llround(std::min(seconds, 1e8) * 1e9);
}

}  // namespace

std::size_t slot_stride(std::size_t message_bytes) {
  constexpr std::size_t page = 4096;
  return (std::max<std::size_t>(message_bytes, 1) + page - 1) / page * page;
}

std::string LinkSettings::describe() const {
  const int stage = link.value + (sends == Direction::forward ? 1 : 0);
  return fmt::format("link {} to stage {} (rank {} of the pipeline)", link.value, stage, peer);
}

faults::Way LinkSettings::way() const {
  return sends == Direction::forward ? faults::Way::forward : faults::Way::backward;
}

Protocol::Protocol(const LinkSettings& settings, std::span<std::byte> pool, Counters& counters,
                   Notify notify, Report report)
    : settings_(settings),
      pool_(pool),
      stride_(slot_stride(settings.message_bytes)),
      counters_(counters),
      notify_(std::move(notify)),
      report_(std::move(report)),
      rails_(settings.paths.size()),
      rail_deadline_ns_(to_ns(settings.rail_deadline_s +
                              static_cast<double>(settings.message_bytes) / slowest_bytes_per_s)) {
  for (int i = settings.receive_slots; i-- > 0;) free_slots_.push_back(i);
  for (std::size_t r = 0; r < rails_.size(); ++r) {
    rails_[r].rail = std::make_unique<Rail>(settings.paths[r], pool);
  }
}

std::vector<std::string> Protocol::addresses() const {
  std::vector<std::string> all;
  for (const RailEnd& end : rails_) all.push_back(end.rail->address());
  return all;
}

void Protocol::connect(const std::vector<std::string>& peer) {
  if (peer.size() != rails_.size()) {
    throw Error(ExitCode::environment,
                fmt::format("{}: {} rails here, {} there: give both hosts as many",
                            settings_.describe(), rails_.size(), peer.size()));
  }
  const std::int64_t now = now_ns();
  for (std::size_t r = 0; r < rails_.size(); ++r) {
    rails_[r].rail->connect(peer[r]);
    rails_[r].state = RailState::up;
    rails_[r].heard_ns = now;
  }
}

std::span<std::byte> Protocol::send_memory(int slot) const {
  return pool_.subspan(static_cast<std::size_t>(slot) * stride_, settings_.message_bytes);
}

std::span<std::byte> Protocol::receive_memory(int slot) const {
  return pool_.subspan(static_cast<std::size_t>(settings_.send_slots + slot) * stride_,
                       settings_.message_bytes);
}

int Protocol::up_rail() const {
  for (std::size_t r = 0; r < rails_.size(); ++r) {
    if (rails_[r].state == RailState::up) return static_cast<int>(r);
  }
  return -1;
}

int Protocol::best_rail() const {
  int best = -1;
  for (std::size_t r = 0; r < rails_.size(); ++r) {
    if (rails_[r].state != RailState::up) continue;
    if (best < 0 ||
        rails_[r].sending.size() < rails_[static_cast<std::size_t>(best)].sending.size())
      best = static_cast<int>(r);
  }
  return best;
}

int Protocol::rails_up() const {
  return static_cast<int>(std::count_if(
      rails_.begin(), rails_.end(), [](const RailEnd& end) { return end.state == RailState::up; }));
}

// ---------------------------------------------------------------- sending

void Protocol::begin_step(const faults::LinkCondition& condition) {
  condition_ = condition;
  sent_in_step_ = 0;
  if (condition.stall_ns > 0) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(condition.stall_ns));
  }
  apply_fault();
}

void Protocol::apply_fault() {
  if (sent_in_step_ < condition_.after_messages) return;
  if (condition_.crash != 0) throw std::runtime_error("injected crash of the delegate");
  for (std::size_t r = 0; r < rails_.size(); ++r) {
    const bool blocked = (condition_.rails_down >> r & 1U) != 0;
    if (blocked && !rails_[r].blocked) {
      rails_[r].blocked = true;
      fail_rail(static_cast<int>(r), "cut by an injected fault");
    }
    rails_[r].blocked = blocked;
  }
}

void Protocol::send(std::int64_t step, std::uint32_t round, int microbatch, int slot,
                    std::int64_t handed_ns) {
  OutMessage message;
  message.step = step;
  message.round = round;
  message.microbatch = microbatch;
  message.slot = slot;
  if (settings_.checksum == Checksum::on) message.checksum = checksum_of(send_memory(slot));
  // Occupancy: messages leave one after the other. Latency: each is late by itself.
  std::int64_t due = handed_ns;
  if (condition_.bytes_per_s > 0) {
    due = std::max(due, occupied_until_ns_) +
          to_ns(static_cast<double>(settings_.message_bytes) / condition_.bytes_per_s);
    occupied_until_ns_ = due;
  }
  message.due_ns =
      due + faults::latency_ns(condition_, settings_.link, step, MicrobatchId(microbatch));
  out_.emplace(next_sequence_++, message);
  ++sent_in_step_;
  apply_fault();
}

bool Protocol::post_due(std::int64_t now) {
  bool posted = false;
  for (auto it = out_.begin(); it != out_.end(); ++it) {
    OutMessage& message = it->second;
    if (message.acknowledged || message.rail >= 0 || message.due_ns > now) continue;
    const int r = best_rail();
    if (r < 0) return posted;
    RailEnd& end = rails_[static_cast<std::size_t>(r)];
    Header header;
    header.kind = MessageKind::data;
    header.sequence = it->first;
    header.step = message.step;
    header.round = message.round;
    header.microbatch = message.microbatch;
    header.checksum = message.checksum;
    header.attempt = ++message.attempt;
    header.rail = static_cast<std::uint8_t>(r);
    message.rail = r;
    ++message.requests;
    end.sending.insert(it->first);
    counters_.sent.fetch_add(1, std::memory_order_relaxed);
    if (message.attempt > 1) counters_.resent.fetch_add(1, std::memory_order_relaxed);
    if (message.posted_ns == 0) message.posted_ns = now;
    posted = true;
    if (Status s = end.rail->send(header, send_memory(message.slot), it->first); !s.ok()) {
      fail_rail(r, s.error().what());  // may have changed out_: the rest in the next turn
      return true;
    }
  }
  return posted;
}

void Protocol::message_left(std::uint64_t sequence) {
  OutMessage& message = out_.at(sequence);
  if (message.left) return;
  message.left = true;
  notify_({Notice::Kind::left, message.slot, message.microbatch, message.step, message.round,
           message.rail, message.attempt, message.posted_ns, now_ns()});
}

void Protocol::retire(std::uint64_t sequence) {
  const auto it = out_.find(sequence);
  if (it == out_.end() || !it->second.acknowledged || it->second.requests > 0) return;
  message_left(sequence);
  const OutMessage& message = it->second;
  notify_({Notice::Kind::done, message.slot, message.microbatch, message.step, message.round,
           message.rail, message.attempt, message.posted_ns, now_ns()});
  out_.erase(it);
}

void Protocol::acknowledge(std::uint64_t sequence) {
  const auto it = out_.find(sequence);
  if (it == out_.end()) return;  // of an earlier attempt
  if (!it->second.acknowledged) counters_.acknowledged.fetch_add(1, std::memory_order_relaxed);
  it->second.acknowledged = true;
  retire(sequence);
}

// ---------------------------------------------------------------- receiving

bool Protocol::admit(std::uint64_t sequence) const {
  std::size_t missing = 0;
  for (std::uint64_t s = first_missing_; s < sequence; ++s) {
    if (!delivered_.contains(s) && !receiving_.contains(s)) ++missing;
  }
  return free_slots_.size() > missing;
}

void Protocol::handle_data(int r, RailEvent& event) {
  Rail& rail = *rails_[static_cast<std::size_t>(r)].rail;
  const std::uint64_t sequence = event.header.sequence;
  if (sequence < first_missing_ || delivered_.contains(sequence)) {
    counters_.duplicates.fetch_add(1, std::memory_order_relaxed);
    rail.discard(event);
    tell(r, MessageKind::ack, sequence);
    return;
  }
  if (const auto it = receiving_.find(sequence); it != receiving_.end()) {
    if (event.header.attempt <= it->second.header.attempt) {
      rail.discard(event);
      return;
    }
    // The sender gave up the rail of the copy that is under way.
    const int old = it->second.rail;
    if (old != r) fail_rail(old, "the peer has given it up");
    // Telling the peer may have failed in turn, on this very rail.
    if (rails_[static_cast<std::size_t>(r)].rail.get() != &rail) return;
  }
  if (!admit(sequence) || !start_reception(r, event)) {
    deferred_.push_back({r, std::move(event)});
  }
}

bool Protocol::start_reception(int r, RailEvent& event) {
  if (receiving_.contains(event.header.sequence)) return false;
  const int slot = free_slots_.back();
  free_slots_.pop_back();
  const std::uint64_t sequence = event.header.sequence;
  receiving_[sequence] = {r, slot, event.header};
  RailEnd& end = rails_[static_cast<std::size_t>(r)];
  if (Status s = end.rail->receive(event, receive_memory(slot), sequence); !s.ok()) {
    fail_rail(r, s.error().what());  // gives the slot back
  }
  return true;
}

void Protocol::finish_reception(std::uint64_t sequence) {
  const auto it = receiving_.find(sequence);
  if (it == receiving_.end()) return;
  const Reception done = it->second;
  receiving_.erase(it);
  if (done.header.checksum != 0 && checksum_of(receive_memory(done.slot)) != done.header.checksum) {
    counters_.damaged.fetch_add(1, std::memory_order_relaxed);
    free_slots_.push_back(done.slot);
    tell(done.rail, MessageKind::nack, sequence);
    return;
  }
  delivered_.insert(sequence);
  while (delivered_.erase(first_missing_) != 0) ++first_missing_;
  counters_.received.fetch_add(1, std::memory_order_relaxed);
  tell(done.rail, MessageKind::ack, sequence);
  notify_({Notice::Kind::arrived, done.slot, done.header.microbatch, done.header.step,
           done.header.round, done.rail, done.header.attempt, 0, now_ns()});
}

void Protocol::release(int slot) {
  free_slots_.push_back(slot);
  retry_deferred();
}

void Protocol::retry_deferred() {
  // Whatever is taken off the list may change it (a rail that fails): begin anew after each.
  for (bool again = true; again;) {
    again = false;
    for (auto it = deferred_.begin(); it != deferred_.end(); ++it) {
      const std::uint64_t sequence = it->event.header.sequence;
      const bool old = sequence < first_missing_ || delivered_.contains(sequence);
      if (!old && (receiving_.contains(sequence) || !admit(sequence))) continue;
      Deferred taken = std::move(*it);
      deferred_.erase(it);
      handle_data(taken.rail, taken.event);
      again = true;
      break;
    }
  }
}

// ---------------------------------------------------------------- rails

void Protocol::tell(int r, MessageKind kind, std::uint64_t sequence, std::string payload,
                    int about) {
  if (r < 0) return;
  RailEnd& end = rails_[static_cast<std::size_t>(r)];
  if (end.rail == nullptr || end.state == RailState::down) return;
  Header header;
  header.kind = kind;
  header.sequence = sequence;
  const int subject = about >= 0 ? about : r;
  header.rail = static_cast<std::uint8_t>(subject);
  header.epoch = rails_[static_cast<std::size_t>(subject)].epoch;
  if (Status s = end.rail->post(header, std::move(payload)); !s.ok()) {
    fail_rail(r, s.error().what());
  }
}

void Protocol::close_rail(int r) {
  RailEnd& end = rails_[static_cast<std::size_t>(r)];
  for (auto it = deferred_.begin(); it != deferred_.end();) {
    if (it->rail == r) {
      if (end.rail != nullptr) end.rail->discard(it->event);
      it = deferred_.erase(it);
    } else {
      ++it;
    }
  }
  end.rail.reset();  // from here on no request names any slot of ours
  end.state = RailState::down;
  for (auto it = receiving_.begin(); it != receiving_.end();) {
    if (it->second.rail == r) {
      free_slots_.push_back(it->second.slot);
      it = receiving_.erase(it);
    } else {
      ++it;
    }
  }
  const auto sending = std::exchange(end.sending, {});
  for (const std::uint64_t sequence : sending) --out_.at(sequence).requests;
  std::vector<std::uint64_t> finished;
  for (auto& [sequence, message] : out_) {
    if (message.acknowledged) {
      finished.push_back(sequence);
    } else if (message.rail == r) {
      message.rail = -1;
    }
  }
  for (const std::uint64_t sequence : finished) retire(sequence);
}

void Protocol::fail_rail(int r, const std::string& why) {
  RailEnd& end = rails_[static_cast<std::size_t>(r)];
  if (end.rail == nullptr) return;
  const bool was_up = end.state == RailState::up;
  close_rail(r);
  end.probe_pause_ns =
      was_up ? first_probe_pause_ns : std::min(2 * end.probe_pause_ns, longest_probe_pause_ns);
  end.probe_at_ns = now_ns() + end.probe_pause_ns;
  if (!was_up) return;
  const std::string name = settings_.paths[static_cast<std::size_t>(r)].describe();
  if (up_rail() < 0) {
    if (lost_.empty()) {
      lost_ = peer_left_ ? fmt::format("{}: the peer has left", settings_.describe())
                         : fmt::format("{}: its last rail ({}) is lost: {}", settings_.describe(),
                                       name, why);
    }
    return;
  }
  if (peer_left_) return;
  counters_.rail_failures.fetch_add(1, std::memory_order_relaxed);
  report_(fmt::format("{}: rail {} ({}) is down: {}; going on over {}", settings_.describe(), r,
                      name, why, settings_.paths[static_cast<std::size_t>(up_rail())].describe()));
  tell(up_rail(), MessageKind::down, 0, {}, r);
}

void Protocol::rail_is_up(int r) {
  RailEnd& end = rails_[static_cast<std::size_t>(r)];
  if (end.state == RailState::up) return;
  end.state = RailState::up;
  end.heard_ns = now_ns();
  counters_.rail_recoveries.fetch_add(1, std::memory_order_relaxed);
  report_(fmt::format("{}: rail {} ({}) is back", settings_.describe(), r,
                      settings_.paths[static_cast<std::size_t>(r)].describe()));
}

void Protocol::probe(int r, std::int64_t now) {
  RailEnd& end = rails_[static_cast<std::size_t>(r)];
  if (end.state == RailState::opening) {  // no answer in time
    close_rail(r);
    end.probe_pause_ns = std::min(2 * end.probe_pause_ns, longest_probe_pause_ns);
    end.probe_at_ns = now + end.probe_pause_ns;
    return;
  }
  end.probe_at_ns = now + end.probe_pause_ns;
  if (end.blocked) return;
  try {
    end.rail = std::make_unique<Rail>(settings_.paths[static_cast<std::size_t>(r)], pool_);
  } catch (const Error&) {  // the device is still away
    end.probe_pause_ns = std::min(2 * end.probe_pause_ns, longest_probe_pause_ns);
    return;
  }
  ++end.epoch;
  end.state = RailState::opening;
  end.probe_at_ns = now + opening_limit_ns;
  tell(up_rail(), MessageKind::offer, 0, end.rail->address(), r);
}

void Protocol::answer_offer(int r, const RailEvent& event) {
  RailEnd& end = rails_[static_cast<std::size_t>(r)];
  if (event.header.epoch <= end.epoch) return;
  if (end.rail != nullptr) {
    if (end.state == RailState::up) fail_rail(r, "the peer has given it up");
    if (end.rail != nullptr) close_rail(r);
    if (!lost_.empty()) return;
  }
  end.epoch = event.header.epoch;
  if (end.blocked) return;
  try {
    end.rail = std::make_unique<Rail>(settings_.paths[static_cast<std::size_t>(r)], pool_);
    end.rail->connect(event.text);
  } catch (const Error&) {  // the leader will ask again
    end.rail.reset();
    return;
  }
  end.state = RailState::opening;
  tell(up_rail(), MessageKind::accept, 0, end.rail->address(), r);
}

void Protocol::handle_rail_message(const RailEvent& event) {
  const int r = event.header.rail;
  if (r >= static_cast<int>(rails_.size())) return;
  RailEnd& end = rails_[static_cast<std::size_t>(r)];
  const bool current = event.header.epoch == end.epoch && end.rail != nullptr;
  switch (event.header.kind) {
    case MessageKind::down:
      if (current) fail_rail(r, "the peer has given it up");
      break;
    case MessageKind::offer:
      answer_offer(r, event);
      break;
    case MessageKind::accept:
      if (!current || end.state != RailState::opening) break;
      try {
        end.rail->connect(event.text);
        tell(r, MessageKind::hello);
      } catch (const Error&) {
        probe(r, now_ns());
      }
      break;
    case MessageKind::hello:
      if (current) tell(r, MessageKind::hello_back);
      break;
    case MessageKind::hello_back:
      if (!current || end.state != RailState::opening) break;
      tell(r, MessageKind::up);
      if (end.rail != nullptr) rail_is_up(r);
      break;
    case MessageKind::up:
      if (current) rail_is_up(r);
      break;
    default:
      break;
  }
}

void Protocol::look_at_rails(std::int64_t now) {
  const int up = rails_up();
  const std::int64_t patience = up > 1 ? rail_deadline_ns_ : to_ns(settings_.deadline_s);
  for (std::size_t i = 0; i < rails_.size(); ++i) {
    RailEnd& end = rails_[i];
    const int r = static_cast<int>(i);
    if (end.state == RailState::up) {
      if (now - end.heard_ns > patience) {
        fail_rail(r, fmt::format("nothing came over it for {:.1f} s",
                                 static_cast<double>(now - end.heard_ns) * 1e-9));
        return;  // the next one is looked at in the next turn, with its own patience
      }
      if (now >= end.next_ping_ns) {
        end.next_ping_ns = now + to_ns(settings_.rail_deadline_s) / 4;
        tell(r, MessageKind::ping);
      }
    } else if (leads() && now >= end.probe_at_ns) {
      probe(r, now);
    }
  }
}

// ---------------------------------------------------------------- the turn

void Protocol::handle_arrival(int r, RailEvent& event) {
  RailEnd& end = rails_[static_cast<std::size_t>(r)];
  end.heard_ns = now_ns();
  switch (event.header.kind) {
    case MessageKind::data:
      handle_data(r, event);
      break;
    case MessageKind::ack:
      acknowledge(event.header.sequence);
      break;
    case MessageKind::nack:
      if (const auto it = out_.find(event.header.sequence); it != out_.end()) it->second.rail = -1;
      break;
    case MessageKind::bye:
      peer_left_ = true;
      tell(r, MessageKind::bye_back);
      break;
    case MessageKind::bye_back:
      bye_answered_ = true;
      break;
    case MessageKind::ping:
      break;
    default:
      handle_rail_message(event);
  }
}

void Protocol::handle(int r, RailEvent& event) {
  RailEnd& end = rails_[static_cast<std::size_t>(r)];
  switch (event.kind) {
    case RailEvent::Kind::arrived:
      handle_arrival(r, event);
      break;
    case RailEvent::Kind::sent: {
      const auto it = end.sending.find(event.token);
      if (it == end.sending.end()) break;
      end.sending.erase(it);
      --out_.at(event.token).requests;
      message_left(event.token);
      retire(event.token);
      break;
    }
    case RailEvent::Kind::received:
      finish_reception(event.token);
      break;
    case RailEvent::Kind::failed:
      fail_rail(r, event.text);
      break;
  }
}

Result<bool> Protocol::turn() {
  bool worked = false;
  for (std::size_t r = 0; r < rails_.size(); ++r) {
    if (rails_[r].rail == nullptr) continue;
    events_.clear();
    worked = rails_[r].rail->progress(events_) || worked;
    const Rail* const of = rails_[r].rail.get();
    for (auto& event : events_) {
      // The rail may have failed over an earlier event of this very list, or come anew since.
      if (rails_[r].rail.get() != of) break;
      handle(static_cast<int>(r), event);
    }
  }
  if (!deferred_.empty()) retry_deferred();
  worked = post_due(now_ns()) || worked;
  look_at_rails(now_ns());
  if (!lost_.empty()) return Error(ExitCode::peer_lost, lost_);
  return worked;
}

std::int64_t Protocol::next_due_ns() const {
  const std::int64_t now = now_ns();
  std::int64_t due = now + 1'000'000'000;
  for (const auto& [sequence, message] : out_) {
    if (!message.acknowledged && message.rail < 0) due = std::min(due, message.due_ns);
  }
  for (const RailEnd& end : rails_) {
    if (end.state == RailState::up) {
      due = std::min(due, end.next_ping_ns);
    } else if (leads()) {
      due = std::min(due, end.probe_at_ns);
    }
  }
  return due;
}

bool Protocol::arm() {
  for (const RailEnd& end : rails_) {
    if (end.rail != nullptr && !end.rail->arm()) return false;
  }
  return true;
}

std::vector<int> Protocol::event_fds() const {
  std::vector<int> fds;
  for (const RailEnd& end : rails_) {
    if (end.rail != nullptr) fds.push_back(end.rail->event_fd());
  }
  return fds;
}

void Protocol::say_bye() {
  tell(up_rail(), MessageKind::bye);
}

}  // namespace adaptra::transport::ucx
