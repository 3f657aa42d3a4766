#pragma once
// The order of ops of each stage: what a plan says, and what a stage executes. Text form "F0",
// "B3", "W12", which parses back.

#include "core/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace adaptra::plan {

/// F: forward; B: gradient with respect to the input; W: gradient with respect to the weights.
enum class OpKind : unsigned char { forward, backward_input, backward_weight };

char letter(OpKind kind);

struct Op {
  OpKind kind = OpKind::forward;
  int microbatch = 0;  ///< 0 .. N-1

  friend bool operator==(const Op&, const Op&) = default;
};

std::string to_string(Op op);
/// "F0" and the like; error (usage) for anything else.
Result<Op> parse_op(std::string_view text);

struct Order {
  std::vector<std::vector<Op>> stages;  ///< [S][3 N], in order of execution

  friend bool operator==(const Order&, const Order&) = default;
};

/// One line per stage, ops separated by spaces.
std::string to_string(const Order& order);
/// Reads what to_string wrote.
Result<Order> parse_order(std::string_view text);

/// Forwards before the first B, per stage.
std::vector<int> warmup(const Order& order);

}  // namespace adaptra::plan
