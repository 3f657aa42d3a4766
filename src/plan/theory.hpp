#pragma once
// The experiment on the slackness rule (Eq. 1 of arXiv 2504.19232): random pipelines, the delay
// that a generated order really absorbs, and what the rule predicts.

#include "core/error.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace adaptra::plan {

struct TheorySample {
  double spread = 0.0;  ///< op times are uniform in 1 +- spread
  int stages = 0;
  int microbatches = 0;
  int link = 0;
  int slackness = 0;                 ///< D of the link in the generated order
  bool warmup_as_predicted = false;  ///< F(i,x_i) < B(i,1) < F(i,x_i+1) for Algorithm 2's x_i
  bool has_window = false;      ///< some forward of stage i + 1 depends on a B of the same step
  double window_ns = 0.0;       ///< shortest realised window in the delay-free schedule
  double window_rule_ns = 0.0;  ///< D_i (tF_{i+1} + tB_{i+1})
  double absorbed_ns = 0.0;     ///< largest c with added time <= 2 c + 1 %
  double eq1_ns = 0.0;          ///< largest c that Eq. (1) allows
  double knee_ns = 0.0;         ///< (D - 1) t with t the mean of F and B
  double from_window_ns = 0.0;  ///< largest c with 2 c + tF_i + tB_i <= realised window
  double slope = 0.0;           ///< growth above the absorbed delay, ns per ns
  double slope_rule = 0.0;      ///< 2 ceil(N / (D + 1))
};

/// `samples` pipelines for each spread (0, 10 %, 30 %): 2 to 8 stages, 3 S to 6 S microbatches, one
/// link, an order generated under a random scheduling delay. Deterministic by seed.
std::vector<TheorySample> theory_samples(int samples, std::uint64_t seed);

/// The report that verify-theory prints.
std::string theory_report(const std::vector<TheorySample>& samples);

}  // namespace adaptra::plan
