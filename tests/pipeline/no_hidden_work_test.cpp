// F, B, W and the optimizer only launch kernels: no fence, no allocation, no copy, as Kokkos Tools
// sees it.

#include "model/stage_model.hpp"

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>

#include <numeric>

namespace adaptra::pipeline {
namespace {

// Kokkos Tools calls plain functions: the counts can only be static.
struct Counts {
  int kernels = 0, fences = 0, allocations = 0, copies = 0;
};
Counts g_counts;

void count_kernels(const char*, std::uint32_t, std::uint64_t*) {
  ++g_counts.kernels;
}
void count_fences(const char*, std::uint32_t, std::uint64_t*) {
  ++g_counts.fences;
}
void count_allocations(Kokkos::Profiling::SpaceHandle, const char*, const void*, std::uint64_t) {
  ++g_counts.allocations;
}
void count_copies(Kokkos::Profiling::SpaceHandle, const char*, const void*,
                  Kokkos::Profiling::SpaceHandle, const char*, const void*, std::uint64_t) {
  ++g_counts.copies;
}

class NoHiddenWork : public ::testing::TestWithParam<model::Precision> {};

TEST_P(NoHiddenWork, OpsAndOptimizerOnlyLaunchKernels) {
  namespace tools = Kokkos::Tools::Experimental;
  const model::Config config{3, 32, 4, 130, 16, GetParam(), 0.1, 1};
  const model::Batch batch{2, 16};
  const model::StagePart part{0, 3, true, true};
  const auto blocks = model::activation_blocks(part);
  const auto stage = model::StageModel::make(
      config, part, batch, {1, max(blocks.after_forward, blocks.during_backward), 1});
  std::vector<std::int32_t> tokens(32);
  std::iota(tokens.begin(), tokens.end(), 0);
  stage->begin_step();
  stage->set_tokens({0, 0, 0}, tokens, tokens);

  tools::set_begin_parallel_for_callback(count_kernels);
  tools::set_begin_parallel_reduce_callback(count_kernels);
  tools::set_begin_fence_callback(count_fences);
  tools::set_allocate_data_callback(count_allocations);
  tools::set_begin_deep_copy_callback(count_copies);
  g_counts = {};
  const auto expect_only_kernels = [](const char* what, int at_least = 1) {
    EXPECT_GE(g_counts.kernels, at_least) << what << ": Kokkos Tools saw nothing";
    EXPECT_EQ(g_counts.fences, 0) << what;
    EXPECT_EQ(g_counts.allocations, 0) << what;
    EXPECT_EQ(g_counts.copies, 0) << what;
    g_counts = {};
  };
  stage->forward({0, 0, 0}, nullptr, nullptr, 1.0 / 32);
  expect_only_kernels("F");
  stage->backward_input({0, 0, 0}, nullptr, nullptr);
  expect_only_kernels("B");
  stage->backward_weight({0, 0, 0});
  expect_only_kernels("W", 0);  // nothing but matrix products
  stage->add_tied();
  stage->update({1e-3});
  expect_only_kernels("optimizer");
  // The counters do count: this allocates, copies and fences.
  stage->losses();
  Kokkos::View<int*> fresh("fresh", 3);
  Kokkos::deep_copy(fresh, Kokkos::View<int*>("other", 3));
  EXPECT_GT(g_counts.allocations + g_counts.copies, 0);

  tools::set_begin_parallel_for_callback(nullptr);
  tools::set_begin_parallel_reduce_callback(nullptr);
  tools::set_begin_fence_callback(nullptr);
  tools::set_allocate_data_callback(nullptr);
  tools::set_begin_deep_copy_callback(nullptr);
}

INSTANTIATE_TEST_SUITE_P(Model, NoHiddenWork,
                         ::testing::Values(model::Precision::fp32, model::Precision::bf16));

}  // namespace
}  // namespace adaptra::pipeline
