// libFuzzer: plan_fuzz tests/fuzz/plan_corpus -max_total_time=60
#include "read_plans.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  adaptra::plan::feed_readers({reinterpret_cast<const char*>(data), size});
  return 0;
}
