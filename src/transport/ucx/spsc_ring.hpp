#pragma once
// A bounded queue from one thread to one other, without locks. Both ends may be checked from either
// side; only the producer pushes, only the consumer pops.

#include <atomic>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace adaptra::transport::ucx {

template <typename T>
class SpscRing {
 public:
  explicit SpscRing(std::size_t capacity) : items_(capacity + 1) {}

  /// False where the ring is full; `item` is then untouched.
  bool push(T& item) {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    const std::size_t next = after(tail);
    if (next == head_.load(std::memory_order_acquire)) return false;
    items_[tail] = std::move(item);
    // Sequentially consistent: a consumer that announced its sleep and then saw an empty ring must
    // not be missed by a producer that pushed and then saw no sleeper.
    tail_.store(next, std::memory_order_seq_cst);
    return true;
  }

  std::optional<T> pop() {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return std::nullopt;
    std::optional<T> item(std::move(items_[head]));
    head_.store(after(head), std::memory_order_release);
    return item;
  }

  bool empty() const { return head_.load() == tail_.load(); }

 private:
  std::size_t after(std::size_t at) const { return at + 1 == items_.size() ? 0 : at + 1; }

  std::vector<T> items_;
  alignas(64) std::atomic<std::size_t> head_{0};  // apart: each line is written by one thread
  alignas(64) std::atomic<std::size_t> tail_{0};
};

}  // namespace adaptra::transport::ucx
