// The program as a user meets it: exit codes, messages, files.
#include "plan/files.hpp"
#include "plan/picture.hpp"
#include "plan/plan.hpp"
#include "plan/theory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

namespace adaptra::plan {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int code = -1;
  std::string text;
};

class App : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("adaptra_plan_app_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    Profile p = uniform_profile(4, 8, 10'000'000, 11'000'000, 6'000'000);
    p.links[1].forward_delay_ns = p.links[1].backward_delay_ns = 20'000'000;
    put("profile.json", to_json(p));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  void put(const std::string& name, const std::string& text) const {
    write_file(at(name), text).throw_if_error();
  }
  Outcome run(const std::string& arguments) const {
    const std::string line = std::string(ADAPTRA_BIN_DIR "/adaptra-plan ") + arguments + " 2>&1";
    Outcome out;
    FILE* pipe = ::popen(line.c_str(), "r");
    std::array<char, 4096> buffer{};
    while (std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
      out.text.append(buffer.data(), n);
    }
    out.code = WEXITSTATUS(::pclose(pipe));
    return out;
  }

  std::filesystem::path folder_;
};

TEST_F(App, HelpHasExamples) {
  const Outcome help = run("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.text, HasSubstr("adaptra-plan compare profile.json"));
  EXPECT_EQ(run("").code, 2);
  EXPECT_EQ(run("make").code, 2);
  EXPECT_EQ(run("make " + at("profile.json") + " --policy fastest").code, 2);
}

TEST_F(App, MakesChecksSimulatesAndDraws) {
  const Outcome made = run("make " + at("profile.json") + " --budget-evals 500 -o " +
                           at("plan.json") + " --svg " + at("plan.svg"));
  ASSERT_EQ(made.code, 0) << made.text;
  EXPECT_THAT(made.text, HasSubstr("lower bound"));
  EXPECT_EQ(run("check " + at("profile.json") + " " + at("plan.json")).code, 0);
  EXPECT_EQ(run("simulate " + at("profile.json") + " --plan " + at("plan.json")).code, 0);
  const std::string svg = read_file(at("plan.svg")).value();
  EXPECT_THAT(svg, HasSubstr("stage 3"));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  const Outcome again =
      run("make " + at("profile.json") + " --budget-evals 500 -o " + at("again.json"));
  ASSERT_EQ(again.code, 0);
  EXPECT_EQ(read_plan(at("plan.json")).value().order, read_plan(at("again.json")).value().order);
}

TEST_F(App, ComparesAndSweeps) {
  const Outcome table = run("compare " + at("profile.json") + " --budget-evals 500");
  EXPECT_EQ(table.code, 0);
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "zb-h2", "greedy", "slackness", "adaptra"}) {
    EXPECT_THAT(table.text, HasSubstr(name));
  }
  const Outcome sweep =
      run("sweep " + at("profile.json") + " --link 1 --points 3 --budget-evals 200 --csv " +
          at("s.csv") + " --svg " + at("s.svg"));
  EXPECT_EQ(sweep.code, 0) << sweep.text;
  EXPECT_THAT(read_file(at("s.csv")).value(), HasSubstr("delay_ms,1f1b"));
  EXPECT_THAT(read_file(at("s.svg")).value(), HasSubstr("</svg>"));
  EXPECT_EQ(run("sweep " + at("profile.json") + " --link 3").code, 2);
}

TEST_F(App, ExitCodesTellProblemsApart) {
  EXPECT_EQ(run("make " + at("missing.json")).code, 6);
  put("broken.json", "{");
  EXPECT_EQ(run("make " + at("broken.json")).code, 2);
  Profile p = uniform_profile(2, 2, 1, 1, 1);
  p.activation_bytes = {10, 10};
  p.memory_limit_bytes = {5, 100};
  put("small.json", to_json(p));
  const Outcome small = run("make " + at("small.json"));
  EXPECT_EQ(small.code, 7);
  EXPECT_THAT(small.text, HasSubstr("needs 10"));
  put("plan.json",
      R"({"order":[["F0","F1","B1","B0","W0","W1"],["F0","B0","F1","B1","W0","W1"]]})");
  put("two.json", to_json(uniform_profile(2, 2, 1, 1, 1)));
  const Outcome bad = run("check " + at("two.json") + " " + at("plan.json"));
  EXPECT_EQ(bad.code, 7);
  EXPECT_THAT(bad.text, HasSubstr("[B0]"));
}

TEST_F(App, ImportsRecordedPipelines) {
  const Outcome out =
      run("import " ADAPTRA_TEST_DATA "/plan/data/recorded_clusters.json -o " + at("profiles"));
  EXPECT_EQ(out.code, 0);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(at("profiles"))) {
    EXPECT_TRUE(read_profile(entry.path().string()).ok());
    ++files;
  }
  EXPECT_EQ(files, 14);
}

// Figures of docs/theory.md that a change of the simulator or generator must not move.
TEST(Theory, UniformStagesKeepTheRuleOthersDoNot) {
  const std::vector<TheorySample> samples = theory_samples(100, 1);
  int uniform = 0;
  int uneven = 0;
  for (const TheorySample& s : samples) {
    if (s.absorbed_ns >= s.eq1_ns) continue;
    (s.spread == 0.0 ? uniform : uneven) += 1;
  }
  EXPECT_EQ(uniform, 0);
  EXPECT_GT(uneven, 20);
  EXPECT_EQ(theory_report(samples), theory_report(theory_samples(100, 1)));
}

}  // namespace
}  // namespace adaptra::plan
