// main() of tests that run on several MPI ranks. The ranks must run the same tests in the same
// order; a failure on any rank fails the program.

#include "mpi/session.hpp"

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  adaptra::mpi::Session session(&argc, &argv);
  ::testing::InitGoogleTest(&argc, argv);
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (session.rank() != 0) delete listeners.Release(listeners.default_result_printer());
  const int failed = RUN_ALL_TESTS();
  if (failed != 0 && session.rank() != 0) {
    const auto* unit = ::testing::UnitTest::GetInstance();
    for (int s = 0; s < unit->total_test_suite_count(); ++s) {
      const auto* suite = unit->GetTestSuite(s);
      for (int t = 0; t < suite->total_test_count(); ++t) {
        const auto* result = suite->GetTestInfo(t)->result();
        for (int p = 0; p < result->total_part_count(); ++p) {
          const auto& part = result->GetTestPartResult(p);
          if (part.failed()) {
            std::fprintf(stderr, "rank %d: %s:%d: %s\n", session.rank(),
                         part.file_name() != nullptr ? part.file_name() : "?", part.line_number(),
                         part.message());
          }
        }
      }
    }
  }
  if (failed != 0) session.abort(1);  // others may wait in a collective call
  return failed;
}
