#pragma once
// A link inside one process: two ends that hand messages to each other, for tests of what uses
// channels. Thread-safe, so that each stage may be a thread. Receives of a message that was never
// sent, messages sent twice and slots that are not given back are failures that the test sees.

#include "transport/channel.hpp"

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace adaptra::testing_support {

class FakeLink {
 public:
  FakeLink(std::size_t message_bytes, int slots) {
    for (auto& end : ends_) end = std::make_unique<End>(*this, message_bytes, slots);
    ends_[0]->peer = ends_[1].get();
    ends_[1]->peer = ends_[0].get();
  }
  transport::Channel& upper() { return *ends_[0]; }
  transport::Channel& lower() { return *ends_[1]; }

  /// Messages delivered and consumed, slots still out; after a step.
  int consumed() const { return consumed_; }
  int slots_out() const {
    int out = 0;
    for (const auto& end : ends_) {
      for (const bool taken : end->taken) out += taken ? 1 : 0;
    }
    return out;
  }

 private:
  struct End final : transport::Channel {
    End(FakeLink& owner, std::size_t message_bytes, int slots)
        : link(owner),
          memory(static_cast<std::size_t>(slots), std::vector<std::byte>(message_bytes)),
          taken(static_cast<std::size_t>(slots), false) {}

    std::string describe() const override { return "fake link"; }
    Status begin_step(std::int64_t, int count) override {
      const std::lock_guard lock(link.mutex_);
      expected = count;
      return {};
    }
    Result<transport::Slot> send_slot() override {
      std::unique_lock lock(link.mutex_);
      const bool free = link.changed_.wait_for(lock, std::chrono::seconds(20), [&] {
        return std::find(taken.begin(), taken.end(), false) != taken.end();
      });
      if (!free) return Error(ExitCode::peer_lost, "fake link: no slot");
      const auto i =
          static_cast<std::size_t>(std::find(taken.begin(), taken.end(), false) - taken.begin());
      taken[i] = true;
      return transport::Slot{memory[i], static_cast<int>(i)};
    }
    Status send(MicrobatchId microbatch, transport::Slot slot) override {
      const std::lock_guard lock(link.mutex_);
      if (!peer->arrived.emplace(microbatch.value, slot).second) {
        return Error(ExitCode::internal, "sent twice");
      }
      link.changed_.notify_all();
      return {};
    }
    Status wait_left(MicrobatchId microbatch) override {
      // Leaves when the other end has taken it: the strictest rule there is.
      std::unique_lock lock(link.mutex_);
      const bool left = link.changed_.wait_for(lock, std::chrono::seconds(20), [&] {
        return peer->arrived.count(microbatch.value) == 0 || peer->expected > 0;
      });
      return left ? Status() : Status(Error(ExitCode::peer_lost, "fake link: did not leave"));
    }
    Result<std::optional<transport::Slot>> poll_receive(MicrobatchId microbatch) override {
      const std::lock_guard lock(link.mutex_);
      const auto found = arrived.find(microbatch.value);
      if (found == arrived.end()) return std::optional<transport::Slot>();
      return std::optional<transport::Slot>(found->second);
    }
    void release(transport::Slot slot) override {
      const std::lock_guard lock(link.mutex_);
      for (auto it = arrived.begin(); it != arrived.end(); ++it) {
        if (it->second.memory.data() == slot.memory.data()) {
          arrived.erase(it);
          break;
        }
      }
      peer->taken[static_cast<std::size_t>(slot.index)] = false;
      ++link.consumed_;
      link.changed_.notify_all();
    }
    Status end_step() override { return {}; }

    FakeLink& link;
    End* peer = nullptr;
    std::vector<std::vector<std::byte>> memory;
    std::vector<bool> taken;
    std::map<int, transport::Slot> arrived;
    int expected = 0;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<End> ends_[2];
  int consumed_ = 0;
};

}  // namespace adaptra::testing_support
