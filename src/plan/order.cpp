#include "plan/order.hpp"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

namespace adaptra::plan {

char letter(OpKind kind) {
  switch (kind) {
    case OpKind::forward:
      return 'F';
    case OpKind::backward_input:
      return 'B';
    case OpKind::backward_weight:
      return 'W';
  }
  return '?';
}

std::string to_string(Op op) {
  return fmt::format("{}{}", letter(op.kind), op.microbatch);
}

Result<Op> parse_op(std::string_view text) {
  const auto bad = [&] {
    return Error(ExitCode::usage,
                 fmt::format("\"{}\" is not an op; expected F, B or W and a microbatch, as in F0",
                             text.substr(0, 40)));
  };
  if (text.size() < 2 || text.size() > 10) return bad();
  Op op;
  switch (text[0]) {
    case 'F':
      op.kind = OpKind::forward;
      break;
    case 'B':
      op.kind = OpKind::backward_input;
      break;
    case 'W':
      op.kind = OpKind::backward_weight;
      break;
    default:
      return bad();
  }
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data() + 1, end, op.microbatch);
  if (code != std::errc() || stop != end || op.microbatch < 0) return bad();
  return op;
}

std::string to_string(const Order& order) {
  std::string text;
  for (const auto& stage : order.stages) {
    for (std::size_t i = 0; i < stage.size(); ++i) {
      if (i > 0) text += ' ';
      text += to_string(stage[i]);
    }
    text += '\n';
  }
  return text;
}

Result<Order> parse_order(std::string_view text) {
  Order order;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::vector<Op> ops;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      const Result<Op> op = parse_op(word);
      if (!op) return op.error();
      ops.push_back(op.value());
    }
    if (!ops.empty()) order.stages.push_back(std::move(ops));
  }
  return order;
}

std::vector<int> warmup(const Order& order) {
  std::vector<int> counts;
  for (const auto& stage : order.stages) {
    int count = 0;
    for (const Op op : stage) {
      if (op.kind == OpKind::backward_input) break;
      count += op.kind == OpKind::forward ? 1 : 0;
    }
    counts.push_back(count);
  }
  return counts;
}

}  // namespace adaptra::plan
