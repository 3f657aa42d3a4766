#pragma once
// A point in the work of an execution space: set behind what was enqueued, reached when that is
// done. On hosts, where work is done when it is enqueued, it is reached at once. One thread.

#include "device/session.hpp"

namespace adaptra::device {

class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void set(const Exec& exec);
  bool reached() const;

 private:
  void* handle_ = nullptr;  // cudaEvent_t
};

}  // namespace adaptra::device
