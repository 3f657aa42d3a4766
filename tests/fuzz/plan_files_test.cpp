// The corpus and mutations of it, without a fuzzer.
#include "plan/files.hpp"
#include "read_plans.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

namespace adaptra::plan {
namespace {

TEST(Corpus, ReadersSurviveItAndItsMutations) {
  const char* scale = std::getenv("ADAPTRA_TEST_SCALE");
  const int mutations = static_cast<int>(300 * (scale == nullptr ? 1.0 : std::atof(scale)));
  std::mt19937_64 random(1);
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(ADAPTRA_TEST_DATA "/fuzz/plan_corpus")) {
    ++files;
    const std::string text = read_file(entry.path().string()).value();
    feed_readers(text);
    for (int k = 0; k < mutations && !text.empty(); ++k) {
      std::string bytes = text;
      for (int m = 0; m < 1 + static_cast<int>(random() % 3); ++m) {
        const std::size_t at = random() % bytes.size();
        switch (random() % 5) {
          case 0:
            bytes[at] = static_cast<char>(random());
            break;
          case 1:
            bytes.erase(at, 1 + random() % 4);
            break;
          case 2:
            bytes.insert(at, 1, "0123456789-.eE[]{},:\"FBW"[random() % 24]);
            break;
          case 3:
            bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 12));
            break;
          default:
            bytes.resize(at + 1);
        }
        if (bytes.empty()) bytes = "x";
      }
      feed_readers(bytes);
    }
  }
  EXPECT_GE(files, 10);
}

}  // namespace
}  // namespace adaptra::plan
