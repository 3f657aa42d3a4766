#include "plan/slack.hpp"

#include "plan/simulate.hpp"

#include <algorithm>
#include <limits>

namespace adaptra::plan {
namespace {

constexpr std::int64_t longest_delay_ns = 1'000'000'000'000'000;

void add(Link& link, std::int64_t delay_ns) {
  const auto more = [&](std::int64_t& value) {
    if (value >= 0) value = std::min(longest_delay_ns, value + delay_ns);
  };
  more(link.forward_delay_ns);
  more(link.backward_delay_ns);
  more(link.forward_delay_p95_ns);
  more(link.backward_delay_p95_ns);
  if (link.mode == LinkMode::direct) {
    more(link.forward_hold_ns);
    more(link.backward_hold_ns);
  }
}

}  // namespace

Profile with_more_delay(const Profile& profile, int link, std::int64_t delay_ns) {
  Profile slower = profile;
  add(slower.links[static_cast<std::size_t>(link)], delay_ns);
  return slower;
}

Profile with_more_delay(const Profile& profile, std::int64_t delay_ns) {
  Profile slower = profile;
  for (Link& link : slower.links) add(link, delay_ns);
  return slower;
}

Result<std::vector<std::int64_t>> absorbed_ns(const Profile& profile, const Order& order) {
  const Result<Schedule> plain = simulate(profile, order);
  if (!plain) return plain.error();
  const std::int64_t base = plain.value().makespan_ns;
  std::vector<std::int64_t> absorbed;
  for (int link = 0; link + 1 < profile.stages; ++link) {
    // The makespan is a maximum of sums, so convex in the delay: what is absorbed is an interval.
    const auto absorbs = [&](std::int64_t delay) {
      const Result<Schedule> slow = simulate(with_more_delay(profile, link, delay), order);
      return slow && slow.value().makespan_ns - base <= 2 * delay + base / 100;
    };
    const std::int64_t most =
        std::min(longest_delay_ns, base > longest_delay_ns / 8 ? longest_delay_ns : 8 * base + 1);
    std::int64_t good = 0;
    std::int64_t bad = std::max<std::int64_t>(1, base / 64);
    while (bad < most && absorbs(bad)) {
      good = bad;
      bad = std::min(most, bad * 4);
    }
    if (bad == most && absorbs(most)) {
      absorbed.push_back(most);
      continue;
    }
    while (bad - good > 1 + good / 1024) {
      const std::int64_t middle = good + (bad - good) / 2;
      (absorbs(middle) ? good : bad) = middle;
    }
    absorbed.push_back(good);
  }
  return absorbed;
}

Result<std::int64_t> least_absorbed_ns(const Profile& profile, const Order& order) {
  const Result<std::vector<std::int64_t>> all = absorbed_ns(profile, order);
  if (!all) return all.error();
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t value : all.value()) least = std::min(least, value);
  return least;
}

}  // namespace adaptra::plan
