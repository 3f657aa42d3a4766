#include "pipeline/executor.hpp"

#include "mpi/wait.hpp"
#include "pipeline/clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace adaptra::pipeline {
namespace {

using plan::OpKind;

// Ops enqueued beyond the running one, so that a GPU never waits for the host between two ops.
constexpr std::size_t ops_ahead = 1;

Phase phase_of(OpKind kind) {
  switch (kind) {
    case OpKind::forward:
      return Phase::forward;
    case OpKind::backward_input:
      return Phase::backward_input;
    case OpKind::backward_weight:
      break;
  }
  return Phase::backward_weight;
}

}  // namespace

Executor::Executor(Stage& stage, LinkEnd previous, LinkEnd next, Progress& progress,
                   double deadline_s)
    : stage_(stage),
      previous_(previous),
      next_(next),
      progress_(progress),
      deadline_s_(deadline_s) {}

LinkEnd& Executor::source_of(OpKind kind) {
  if (kind == OpKind::forward) return previous_;
  return kind == OpKind::backward_input ? next_ : none_;
}

LinkEnd& Executor::target_of(OpKind kind) {
  if (kind == OpKind::forward) return next_;
  return kind == OpKind::backward_input ? previous_ : none_;
}

Status Executor::run(std::int64_t step, const std::vector<plan::Op>& order) {
  records_.clear();
  for (const auto& [end, kind] :
       {std::pair(previous_, OpKind::forward), std::pair(next_, OpKind::backward_input)}) {
    if (end.channel == nullptr) continue;
    const auto expected = std::count_if(
        order.begin(), order.end(), [kind = kind](const plan::Op& op) { return op.kind == kind; });
    if (Status s = end.channel->begin_step(step, static_cast<int>(expected)); !s.ok()) return s;
  }
  for (const plan::Op& op : order) {
    Running run;
    run.op = op;
    if (Status s = take_input(run); !s.ok()) return s;
    if (Status s = take_output(run); !s.ok()) return s;
    if (Status s = start(run); !s.ok()) return s;
    running_.push_back(std::move(run));
    if (Status s = drain(ops_ahead); !s.ok()) return s;
  }
  if (Status s = drain(0); !s.ok()) return s;
  for (const LinkEnd& end : {previous_, next_}) {
    if (end.channel == nullptr) continue;
    progress_.set(Phase::waiting_for_send);
    if (Status s = end.channel->end_step(); !s.ok()) return s;
  }
  return {};
}

Status Executor::take_input(Running& run) {
  auto* channel = source_of(run.op.kind).channel;
  if (channel == nullptr) {
    run.ready_ns = now_ns();
    return {};
  }
  progress_.set(
      run.op.kind == OpKind::forward ? Phase::waiting_for_activation : Phase::waiting_for_gradient,
      run.op.microbatch);
  const auto deadline = mpi::Deadline::after_s(deadline_s_);
  mpi::Backoff backoff;
  while (true) {
    auto received = channel->poll_receive(MicrobatchId(run.op.microbatch));
    if (!received.ok()) return received.error();
    if (received->has_value()) {
      run.input = **received;
      run.ready_ns = now_ns();
      return {};
    }
    if (Status s = finish_ended(); !s.ok()) return s;
    if (deadline.passed()) {
      return Error(ExitCode::peer_lost,
                   fmt::format("{}: nothing came within {:g} s ({})", progress_.describe(),
                               deadline_s_, channel->describe()));
    }
    backoff.pause();
  }
}

Status Executor::take_output(Running& run) {
  auto* channel = target_of(run.op.kind).channel;
  if (channel == nullptr) return {};
  progress_.set(Phase::waiting_for_send, run.op.microbatch);
  auto slot = channel->send_slot();
  if (!slot.ok()) return slot.error();
  run.output = *slot;
  return {};
}

Status Executor::start(Running& run) {
  progress_.set(phase_of(run.op.kind), run.op.microbatch);
  std::span<const std::byte> input;
  std::span<std::byte> output;
  if (run.input) input = run.input->memory;
  if (run.output) output = run.output->memory;
  auto token = stage_.enqueue(run.op, input, output);
  if (!token.ok()) return token.error();
  run.token = *token;
  return {};
}

Status Executor::finish_ended() {
  while (!running_.empty()) {
    auto ended = stage_.ended(running_.front().token);
    if (!ended.ok()) return ended.error();
    if (!*ended) return {};
    if (Status s = finish(running_.front()); !s.ok()) return s;
    running_.pop_front();
  }
  return {};
}

Status Executor::finish(Running& run) {
  const OpTimes times = stage_.times(run.token);
  records_.push_back({run.op, run.ready_ns, times.started_ns, times.ended_ns});
  if (run.input) source_of(run.op.kind).channel->release(*run.input);
  if (!run.output) return {};
  LinkEnd& target = target_of(run.op.kind);
  const MicrobatchId microbatch(run.op.microbatch);
  if (Status s = target.channel->send(microbatch, *run.output); !s.ok()) return s;
  if (target.rule == SendRule::delegated) return {};
  progress_.set(Phase::waiting_for_send, run.op.microbatch);
  return target.channel->wait_left(microbatch);
}

Status Executor::drain(std::size_t allowed) {
  // Behind a direct send nothing may have been started.
  if (!running_.empty()) {
    const LinkEnd& target = target_of(running_.back().op.kind);
    if (target.channel != nullptr && target.rule == SendRule::direct) allowed = 0;
  }
  const auto deadline = mpi::Deadline::after_s(deadline_s_);
  mpi::Backoff backoff;
  while (true) {
    if (Status s = finish_ended(); !s.ok()) return s;
    if (running_.size() <= allowed) return {};
    if (deadline.passed()) {
      return Error(ExitCode::internal, fmt::format("{}: an op did not end within {:g} s",
                                                   progress_.describe(), deadline_s_));
    }
    backoff.pause();
  }
}

}  // namespace adaptra::pipeline
