#include "data/sampler.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <bit>

namespace adaptra::data {
namespace {

std::uint64_t mix(std::uint64_t x) {  // SplitMix64's finaliser
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t permute(std::uint64_t value, std::uint64_t size, std::uint64_t key) {
  if (size < 2) return value;
  const auto half = static_cast<int>((std::bit_width(size - 1) + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = value >> half, right = value & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t next = left ^ (mix(right ^ mix(key + round)) & mask);
      left = right;
      right = next;
    }
    value = left << half | right;
  } while (value >= size);
  return value;
}

Sampler::Sampler(const TokenSource& source, const Settings& settings)
    : source_(source),
      settings_(settings),
      sequences_((source.size() - 1) / settings.sequence_tokens) {
  if (sequences_ < 1) {
    throw Error(ExitCode::file,
                fmt::format("the data hold {} tokens, too few for one sequence of {} and its last "
                            "target: give more data, or a smaller training.sequence_tokens",
                            source.size(), settings.sequence_tokens));
  }
}

std::uint64_t Sampler::global_microbatch(std::int64_t step, int replica, int microbatch) const {
  const auto per_step = static_cast<std::uint64_t>(settings_.microbatches) *
                        static_cast<std::uint64_t>(settings_.replicas);
  return static_cast<std::uint64_t>(step - 1) * per_step +
         static_cast<std::uint64_t>(microbatch) * static_cast<std::uint64_t>(settings_.replicas) +
         static_cast<std::uint64_t>(replica);
}

std::int64_t Sampler::sequence_of(std::uint64_t position) const {
  const auto count = static_cast<std::uint64_t>(sequences_);
  const std::uint64_t epoch = position / count, inside = position % count;
  if (!settings_.shuffled) return static_cast<std::int64_t>(inside);
  return static_cast<std::int64_t>(permute(inside, count, mix(settings_.seed) ^ mix(epoch + 1)));
}

void Sampler::read(std::int64_t step, int replica, int microbatch,
                   std::vector<std::int32_t>& tokens, std::vector<std::int32_t>& targets) const {
  const auto t = static_cast<std::size_t>(settings_.sequence_tokens);
  const auto b = static_cast<std::size_t>(settings_.microbatch_sequences);
  tokens.resize(b * t);
  targets.resize(b * t);
  std::vector<std::int32_t> row(t + 1);
  const std::uint64_t first = global_microbatch(step, replica, microbatch) * b;
  for (std::size_t s = 0; s < b; ++s) {
    const std::int64_t sequence = sequence_of(first + s);
    source_.copy(sequence * settings_.sequence_tokens, row);
    std::copy(row.begin(), row.end() - 1, tokens.begin() + static_cast<std::ptrdiff_t>(s * t));
    std::copy(row.begin() + 1, row.end(), targets.begin() + static_cast<std::ptrdiff_t>(s * t));
  }
}

}  // namespace adaptra::data
