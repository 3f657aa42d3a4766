#pragma once
// Pictures as SVG text: a plan as rows of ops over time, and curves of step time against delay.

#include "core/error.hpp"
#include "plan/plan.hpp"
#include "plan/profile.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace adaptra::plan {

/// Stages as rows; F, B and W in three colours with microbatch numbers where they fit; the messages
/// of slow links; the bubble of each stage. The plan must be possible under the profile.
Result<std::string> plan_svg(const Profile& profile, const Plan& plan);

struct Curve {
  std::string name;
  std::vector<double> y;  ///< one per x
};
/// Curves over common x values, with axes, grid and names.
std::string curves_svg(const std::string& title, const std::string& x_name,
                       const std::string& y_name, const std::vector<double>& x,
                       const std::vector<Curve>& curves);

}  // namespace adaptra::plan
