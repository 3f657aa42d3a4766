#pragma once
// One way to one peer: a UCX context on one device, a worker and an endpoint, for the single thread
// that made it. Everything that UCX does is turned into plain events here; nothing above this file
// sees UCX.
//
// A rail that has failed is destroyed, not repaired: closing the worker is what makes sure that
// nothing on its way can still be written into a slot. A new rail to the same peer is a new object
// with a new address.

#include "core/error.hpp"
#include "transport/ucx/message.hpp"
#include "transport/ucx/path.hpp"

#include <memory>
#include <string>
#include <vector>

namespace adaptra::transport::ucx {

struct RailEvent {
  enum class Kind { arrived, sent, received, failed };
  Kind kind = Kind::arrived;
  Header header;            ///< arrived
  std::string text;         ///< arrived: the payload where UCX does not keep it; failed: why
  void* kept = nullptr;     ///< arrived: the payload's descriptor; receive() or discard() it
  std::size_t bytes = 0;    ///< arrived: size of the payload
  std::uint64_t token = 0;  ///< sent, received
};

class Rail {
 public:
  /// Opens the device. `pool` is registered with it once. Throws Error{environment}.
  Rail(const Path& path, std::span<std::byte> pool);
  /// Closes at once, whatever is on its way; waits for a bounded time.
  ~Rail();
  Rail(const Rail&) = delete;
  Rail& operator=(const Rail&) = delete;

  /// Where the peer finds this rail.
  std::string address() const;
  /// Joins it to the peer's rail of that address. Throws Error{environment}.
  void connect(const std::string& peer);

  /// Sends; `payload` must stay as it is until the event sent(token).
  Status send(const Header& header, std::span<const std::byte> payload, std::uint64_t token);
  /// Sends a small message that nobody waits for.
  Status post(const Header& header, std::string payload = {});

  /// Moves the payload of an arrived event to `into`; received(token) tells when it is there.
  Status receive(RailEvent& arrived, std::span<std::byte> into, std::uint64_t token);
  /// Forgets the payload of an arrived event; its sender sees it as sent.
  void discard(RailEvent& arrived);

  /// Lets UCX work and appends what happened. True where something did.
  bool progress(std::vector<RailEvent>& events);
  /// Readable when there is work again. False where there is work already: then do not sleep.
  bool arm();
  int event_fd() const;

 private:
  struct Impl;  // keeps UCX's types out of the header
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaptra::transport::ucx
