#include "plan/decide.hpp"

#include "plan/slack.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace adaptra::plan {
namespace {

using Choice = Decision::Choice;

class Decide : public ::testing::Test {
 protected:
  Profile healthy_ = uniform_profile(4, 12, 10'000'000, 10'000'000, 10'000'000);
  Profile slow_ = with_more_delay(healthy_, 0, 40'000'000);
  Plan old_ = make_plan(healthy_, Policy::one_f_one_b).value();
  Plan new_ = make_plan(slow_, Policy::greedy).value();
};

TEST_F(Decide, TakesAPlanThatPays) {
  const Decision d = keep_or_switch(old_, new_, slow_, {});
  EXPECT_EQ(d.choice, Choice::take_new);
  EXPECT_EQ(d.gain_ns, d.current_ns - d.proposed_ns);
  EXPECT_GT(d.gain_ns, 0);
  EXPECT_THAT(d.reason, ::testing::HasSubstr("switch"));
}

TEST_F(Decide, KeepsWhenItDoesNotPay) {
  SwitchCost dear;
  dear.switch_ns = 1'000'000'000'000;
  EXPECT_EQ(keep_or_switch(old_, new_, slow_, dear).choice, Choice::keep);
  SwitchCost noisy;
  noisy.noise = 0.9;
  EXPECT_THAT(keep_or_switch(old_, new_, slow_, noisy).reason, ::testing::HasSubstr("noise"));
  EXPECT_EQ(keep_or_switch(new_, new_, slow_, {}).choice, Choice::keep);
}

TEST_F(Decide, NeverTakesAPlanThatCannotRun) {
  Plan broken = new_;
  broken.order.stages[0].pop_back();
  EXPECT_EQ(keep_or_switch(old_, broken, slow_, {}).choice, Choice::keep);
  EXPECT_EQ(keep_or_switch(broken, new_, slow_, {}).choice, Choice::take_new);
}

}  // namespace
}  // namespace adaptra::plan
