#include "plan/profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adaptra::plan {
namespace {

using ::testing::HasSubstr;

constexpr const char* good = R"({"format":"adaptra-profile","version":1,"stages":2,"microbatches":4,
"forward_ns":[10,11],"backward_input_ns":[12,13],"backward_weight_ns":[14,15]})";

std::string with(std::string_view from, std::string_view to) {
  std::string text = good;
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Profile, MissingPartsHaveDefaults) {
  const Result<Profile> profile = parse_profile(good);
  ASSERT_TRUE(profile.ok()) << profile.error().what();
  EXPECT_EQ(profile.value().links, std::vector<Link>(1));
  EXPECT_EQ(profile.value().memory_limit_bytes,
            (std::vector<std::int64_t>{unlimited_bytes, unlimited_bytes}));
}

TEST(Profile, JsonRoundTrip) {
  Profile p = parse_profile(good).value();
  p.name = "a \"name\"\n";
  p.source = "test";
  p.replica = 3;
  p.outside_ns = 17;
  p.links[0] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, LinkMode::direct};
  p.activation_bytes = {100, 200};
  p.activation_bytes_after_b = {160, 90};
  p.workspace_bytes = {5, 6};
  p.memory_limit_bytes = {1000, unlimited_bytes};
  p.op_jitter = {{0.1, 0.2}, {0.0, 0.1}, {}};
  const Result<Profile> back = parse_profile(to_json(p));
  ASSERT_TRUE(back.ok()) << back.error().what();
  EXPECT_EQ(back.value(), p);
}

TEST(Profile, EachBadFieldIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not valid JSON"},
      {"[]", "not a JSON object"},
      {"{", "not valid JSON"},
      {with("adaptra-profile", "other"), "format"},
      {with("\"version\":1", "\"version\":2"), "version"},
      {with("\"stages\":2", "\"stages\":0"), "stages"},
      {with("\"stages\":2", "\"stages\":\"2\""), "stages"},
      {with("\"stages\":2,", ""), "stages: is missing"},
      {with("\"microbatches\":4", "\"microbatches\":0"), "microbatches"},
      {with("\"microbatches\":4", "\"microbatches\":1e3"), "microbatches"},
      {with("\"microbatches\":4", "\"microbatches\":99999999999999999999"), "microbatches"},
      {with("[10,11]", "[10]"), "forward_ns: has 1 entries, needs 2"},
      {with("[10,11]", "[10,-1]"), "forward_ns[1]"},
      {with("[10,11]", "[10,1.5]"), "forward_ns[1]"},
      {with("[10,11]", "[10,1000000000000001]"), "forward_ns[1]"},
      {with("\"forward_ns\"", "\"forward_n\""), "did you mean forward_ns?"},
      {with("[14,15]", "7"), "backward_weight_ns"},
      {with("[14,15]", "[14,15],\"links\":[]"), "links"},
      {with("[14,15]", "[14,15],\"links\":[7]"), "links[0]"},
      {with("[14,15]", "[14,15],\"links\":[{\"forward_delay_ns\":1}]"), "backward_delay_ns"},
      {with("[14,15]",
            "[14,15],\"links\":[{\"forward_delay_ns\":1,\"backward_delay_ns\":1,"
            "\"mode\":\"x\"}]"),
       "links[0].mode"},
      {with("[14,15]", "[14,15],\"memory_limit_bytes\":[1]"), "memory_limit_bytes"},
      {with("[14,15]", "[14,15],\"op_jitter\":{\"forward\":[1,\"a\"]}"), "op_jitter.forward[1]"},
      {with("[14,15]", "[14,15],\"activation_bytes\":[0,1000000000000000001]"),
       "activation_bytes[1]"},
  };
  for (const auto& [text, expected] : cases) {
    const Result<Profile> profile = parse_profile(text);
    ASSERT_FALSE(profile.ok()) << text;
    EXPECT_EQ(profile.error().code(), ExitCode::usage);
    EXPECT_THAT(profile.error().what(), HasSubstr(expected)) << text;
  }
}

TEST(Profile, SumsThatOverflowAreRefused) {
  Profile p = uniform_profile(4, 1000, 1, 1, 1);
  p.forward_ns.assign(4, 1'000'000'000'000'000);
  const Status status = validate(p);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().what(), HasSubstr("forward_ns"));

  Profile q = uniform_profile(1, 1000, 1, 1, 1);
  q.activation_bytes = {1'000'000'000'000'000'000};
  EXPECT_FALSE(validate(q).ok());
}

TEST(Profile, UnreadableFileHasItsOwnExitCode) {
  const Result<Profile> profile = read_profile("/nonexistent/profile.json");
  ASSERT_FALSE(profile.ok());
  EXPECT_EQ(profile.error().code(), ExitCode::file);
}

TEST(Profile, P95ReplacesTheMean) {
  Profile p = uniform_profile(2, 2, 1, 1, 1);
  p.links[0].forward_delay_ns = 5;
  EXPECT_FALSE(has_p95(p));
  p.links[0].forward_delay_p95_ns = 9;
  EXPECT_TRUE(has_p95(p));
  EXPECT_EQ(at_p95(p).links[0].forward_delay_ns, 9);
  EXPECT_EQ(at_p95(p).links[0].backward_delay_ns, 0);
}

}  // namespace
}  // namespace adaptra::plan
