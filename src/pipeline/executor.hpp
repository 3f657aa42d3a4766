#pragma once
// Runs one step of one stage: its ops in the plan's order, each when its input is there, its output
// sent as soon as it is done. Knows nothing of models or wires: stages compute, channels carry.
// Main thread only; local (the channels are what joins the ranks).

#include "core/progress.hpp"
#include "pipeline/stage.hpp"
#include "plan/order.hpp"
#include "transport/channel.hpp"

#include <deque>
#include <optional>
#include <vector>

namespace adaptra::pipeline {

/// When the ops of a step became ready (input there), began and ended; monotonic clock, ns.
struct OpRecord {
  plan::Op op;
  std::int64_t ready_ns = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

/// What a stage does with the op behind a send. The rule is the link's, whatever the wire.
enum class SendRule {
  direct,     ///< wait until the message has left: the transfer is part of the execution order
  delegated,  ///< go on at once
};

/// One end of a link: null at the ends of the pipeline.
struct LinkEnd {
  transport::Channel* channel = nullptr;
  SendRule rule = SendRule::delegated;
};

class Executor {
 public:
  /// `previous` joins the stage before, `next` the one after. The limits: a message that does not
  /// come within `deadline_s` is Error{peer_lost}. All referenced objects must outlive the
  /// executor.
  Executor(Stage& stage, LinkEnd previous, LinkEnd next, Progress& progress, double deadline_s);

  /// Runs the step: F, B and W of each microbatch exactly once (plan::check made sure), or the F
  /// alone for an evaluation.
  Status run(std::int64_t step, const std::vector<plan::Op>& order);

  /// The ops of the last step, in the order in which they ran.
  const std::vector<OpRecord>& records() const { return records_; }

 private:
  struct Running {
    plan::Op op;
    OpToken token;
    std::optional<transport::Slot> input;
    std::optional<transport::Slot> output;
    std::int64_t ready_ns = 0;
  };

  LinkEnd& source_of(plan::OpKind kind);
  LinkEnd& target_of(plan::OpKind kind);
  Status take_input(Running& run);
  Status take_output(Running& run);
  Status start(Running& run);
  Status finish_ended();
  Status finish(Running& run);
  Status drain(std::size_t allowed);

  Stage& stage_;
  LinkEnd previous_;
  LinkEnd next_;
  LinkEnd none_;
  Progress& progress_;
  double deadline_s_;
  std::deque<Running> running_;
  std::vector<OpRecord> records_;
};

}  // namespace adaptra::pipeline
