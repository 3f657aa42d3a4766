#pragma once
// What the two ends of a link say to each other. Every message of the wire is one UCX active
// message: this header, and for data and addresses a payload. Both ends run the same build on the
// same kind of machine, so the header travels as it lies in memory.

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace adaptra::transport::ucx {

enum class MessageKind : std::uint8_t {
  data,        ///< a microbatch's activation or gradient
  ack,         ///< data `sequence` lies in the receiver's slot
  nack,        ///< data `sequence` came damaged: send it again
  ping,        ///< this rail is alive
  down,        ///< the sender has given up rail `rail` of epoch `epoch`
  offer,       ///< leader: rail `rail` is open again here, at this address, as epoch `epoch`
  accept,      ///< follower: here too, at this address
  hello,       ///< leader, over the new rail
  hello_back,  ///< follower, over the new rail
  up,          ///< leader, over the new rail: it is in use from now on
  bye,         ///< this end closes
  bye_back,    ///< go ahead
};

struct Header {
  std::uint64_t sequence = 0;  ///< of data: counts messages of one direction, over all steps
  std::int64_t step = 0;
  std::uint64_t checksum = 0;  ///< of the payload; 0: not computed
  std::int32_t microbatch = 0;
  std::uint32_t epoch = 0;  ///< of rail messages: how often the rail has been opened
  std::uint16_t attempt = 0;
  std::uint8_t rail = 0;
  MessageKind kind = MessageKind::ping;
  std::uint32_t round = 0;  ///< of data: counts begin_step(), as steps may come twice (evaluation)
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 40);

/// A 64-bit sum that changes with every bit and with the order of the words: four lanes of
/// multiply-and-rotate, so that it runs at memory speed. Never 0.
inline std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15U;
  std::uint64_t lane[4] = {1, 2, 3, 4};
  const auto turn = [](std::uint64_t sum, std::uint64_t word) {
    sum = (sum ^ word) * odd;
    return (sum << 29) | (sum >> 35);
  };
  std::size_t at = 0;
  for (; at + sizeof(lane) <= bytes.size(); at += sizeof(lane)) {
    std::uint64_t word[4];
    std::memcpy(word, bytes.data() + at, sizeof(word));
    for (int i = 0; i < 4; ++i) lane[i] = turn(lane[i], word[i]);
  }
  for (; at < bytes.size(); ++at)
    lane[0] = turn(lane[0], std::to_integer<std::uint64_t>(bytes[at]));
  std::uint64_t sum = bytes.size();
  for (const std::uint64_t part : lane) sum = turn(sum, part);
  return sum != 0 ? sum : 1;
}

/// This host's monotonic clock, ns.
inline std::int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

}  // namespace adaptra::transport::ucx
