#include "plan/order.hpp"

#include <gtest/gtest.h>

namespace adaptra::plan {
namespace {

TEST(Op, TextParsesBack) {
  for (const OpKind kind : {OpKind::forward, OpKind::backward_input, OpKind::backward_weight}) {
    for (const int k : {0, 7, 1023}) {
      const Op op{kind, k};
      const Result<Op> back = parse_op(to_string(op));
      ASSERT_TRUE(back.ok()) << to_string(op);
      EXPECT_EQ(back.value(), op);
    }
  }
}

TEST(Op, RefusesWhatIsNoOp) {
  for (const char* text : {"", "F", "F-1", "X0", "F0x", "f0", "F99999999999", "0F", " F0"}) {
    const Result<Op> op = parse_op(text);
    ASSERT_FALSE(op.ok()) << text;
    EXPECT_EQ(op.error().code(), ExitCode::usage);
  }
}

TEST(Order, TextParsesBackAndCountsWarmUp) {
  const Result<Order> order = parse_order("F0 F1 B0 W0 B1 W1\nF0 B0 F1 B1 W0 W1\n");
  ASSERT_TRUE(order.ok());
  EXPECT_EQ(warmup(order.value()), (std::vector<int>{2, 1}));
  EXPECT_EQ(parse_order(to_string(order.value())).value(), order.value());
}

}  // namespace
}  // namespace adaptra::plan
