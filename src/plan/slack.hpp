#pragma once
// How much slower a link may become before an order suffers more than the delay itself: what a plan
// absorbs without being changed.

#include "core/error.hpp"
#include "plan/order.hpp"
#include "plan/profile.hpp"

#include <cstdint>
#include <vector>

namespace adaptra::plan {

/// The same pipeline with `delay_ns` more on both directions of one link.
Profile with_more_delay(const Profile& profile, int link, std::int64_t delay_ns);
/// ... on both directions of every link.
Profile with_more_delay(const Profile& profile, std::int64_t delay_ns);

/// Per link, the largest delay d that, added to both directions, lengthens the order by at most
/// 2 d + 1 % of its makespan. At most eight makespans (a pipeline of one microbatch absorbs
/// anything); exact to 0.1 % of the answer. About a dozen simulations per link.
Result<std::vector<std::int64_t>> absorbed_ns(const Profile& profile, const Order& order);

/// The smallest of absorbed_ns; for one stage the largest value there is.
Result<std::int64_t> least_absorbed_ns(const Profile& profile, const Order& order);

}  // namespace adaptra::plan
