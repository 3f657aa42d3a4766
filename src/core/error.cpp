#include "core/error.hpp"

#include <fmt/format.h>

namespace adaptra {

void check_failed(const char* condition, const char* file, int line) {
  throw Error(ExitCode::internal,
              fmt::format("{}:{}: broken invariant: {} (a bug in Adaptra, please report)", file,
                          line, condition));
}

}  // namespace adaptra
