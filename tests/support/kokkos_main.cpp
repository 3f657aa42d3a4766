// main() of tests that compute: Kokkos around all tests of the program.

#include "device/session.hpp"

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  const adaptra::device::Session session(0, 1);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
