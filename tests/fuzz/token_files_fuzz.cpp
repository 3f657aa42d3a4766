// libFuzzer target over the readers of token files: byte 0 chooses the format, bytes 1 and 2 say
// how much of the rest is the Megatron index.
//   cmake --preset asan -DCMAKE_CXX_COMPILER=clang++ && cmake --build --preset asan --target
//   token_files_fuzz build/asan/tests/bin/token_files_fuzz -max_total_time=60

#include "fuzz/read_tokens.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const adaptra::testing_support::TemporaryFolder folder;
  static constexpr const char* kinds[] = {"nanogpt", "llmc", "megatron"};
  if (size < 3) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 3, size - 3);
  const std::size_t border = std::min<std::size_t>(rest.size(), data[1] + 256U * data[2]);
  const std::string kind = kinds[data[0] % 3];
  adaptra::testing_support::read_tokens(
      folder, kind, kind == "megatron" ? rest.substr(border) : rest, rest.substr(0, border));
  return 0;
}
