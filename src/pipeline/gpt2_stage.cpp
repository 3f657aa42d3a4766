#include "pipeline/gpt2_stage.hpp"

#include "pipeline/clock.hpp"

#include <algorithm>

namespace adaptra::pipeline {

using plan::OpKind;

model::Capacity capacity_for(const model::StagePart& part, const std::vector<plan::Op>& order,
                             int microbatches) {
  const auto blocks = model::activation_blocks(part);
  model::Capacity capacity;
  capacity.microbatches = microbatches;
  model::Blocks held;
  int in_flight = 0;
  for (const auto& op : order) {
    switch (op.kind) {
      case OpKind::forward:
        held = held + blocks.after_forward;
        ++in_flight;
        break;
      case OpKind::backward_input:
        held = held - blocks.after_forward;
        capacity.activations = max(capacity.activations, held + blocks.during_backward);
        held = held + blocks.after_backward;
        break;
      case OpKind::backward_weight:
        held = held - blocks.after_backward;
        --in_flight;
        break;
    }
    capacity.activations = max(capacity.activations, held);
    capacity.in_flight = std::max(capacity.in_flight, in_flight);
  }
  return capacity;
}

Gpt2Stage::Gpt2Stage(std::unique_ptr<model::StageModel> model, int replica, double loss_scale)
    : model_(std::move(model)), replica_(replica), loss_scale_(loss_scale) {
  for (std::size_t i = 0; i < open_ops; ++i) entries_.push_back(std::make_unique<Entry>());
  if (!device::host_accessible) {
    staging_.input = device::Buffer<unsigned char>("message in", message_bytes());
    staging_.output = device::Buffer<unsigned char>("message out", message_bytes());
  }
}

std::size_t Gpt2Stage::message_bytes() const {
  return static_cast<std::size_t>(model_->batch().rows() * model_->config().channels) *
         model_->config().element_bytes();
}

void Gpt2Stage::begin_step(std::int64_t step, Mode mode, const data::Sampler& sampler) {
  step_ = step;
  mode_ = mode;
  sampler_ = &sampler;
  place_of_.clear();
  free_places_.clear();
  for (int place = model_->in_flight() - 1; place >= 0; --place) free_places_.push_back(place);
  if (mode == Mode::training) model_->begin_step();
}

model::Microbatch Gpt2Stage::start_microbatch(int microbatch) {
  const auto index = static_cast<std::size_t>(microbatch);
  if (place_of_.size() <= index) place_of_.resize(index + 1, -1);
  if (free_places_.empty()) {
    throw Error(ExitCode::internal, "more microbatches in flight than the plan was checked for");
  }
  place_of_[index] = free_places_.back();
  free_places_.pop_back();
  const model::Microbatch started{place_of_[index], microbatch,
                                  sampler_->global_microbatch(step_, replica_, microbatch)};
  if (model_->part().embedding || model_->part().head) {
    sampler_->read(step_, replica_, microbatch, tokens_, targets_);
    model_->set_tokens(started, tokens_, targets_);
  }
  return started;
}

void Gpt2Stage::run(const plan::Op& op, const void* input, void* output) {
  if (op.kind == OpKind::forward) {
    const auto started = start_microbatch(op.microbatch);
    if (mode_ == Mode::training) {
      model_->forward(started, input, output, loss_scale_);
    } else {
      model_->evaluate(started, input, output);
      free_places_.push_back(started.place);
    }
    return;
  }
  const int place = place_of_.at(static_cast<std::size_t>(op.microbatch));
  const model::Microbatch microbatch{place, op.microbatch,
                                     sampler_->global_microbatch(step_, replica_, op.microbatch)};
  if (op.kind == OpKind::backward_input) {
    model_->backward_input(microbatch, input, output);
  } else {
    model_->backward_weight(microbatch);
    free_places_.push_back(place);
  }
}

Result<OpToken> Gpt2Stage::enqueue(const plan::Op& op, std::span<const std::byte> input,
                                   std::span<std::byte> output) {
  const OpToken token{next_token_++};
  Entry& entry = *entries_[token.value % open_ops];
  entry.times.started_ns = now_ns();
  try {
    if constexpr (device::host_accessible) {
      run(op, input.data(), output.data());
    } else {
      using Host = Kokkos::View<unsigned char*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
      using HostIn = Kokkos::View<const unsigned char*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
      if (!input.empty()) {
        Kokkos::deep_copy(
            model_->exec(), staging_.input,
            HostIn(reinterpret_cast<const unsigned char*>(input.data()), input.size()));
      }
      run(op, staging_.input.data(), staging_.output.data());
      if (!output.empty()) {
        Kokkos::deep_copy(model_->exec(),
                          Host(reinterpret_cast<unsigned char*>(output.data()), output.size()),
                          staging_.output);
      }
    }
    entry.event.set(model_->exec());
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ExitCode::internal, error.what());
  }
  entry.times.ended_ns = now_ns();
  return token;
}

Result<bool> Gpt2Stage::ended(OpToken token) {
  Entry& entry = *entries_[token.value % open_ops];
  try {
    if (!entry.event.reached()) return false;
  } catch (const Error& error) {
    return error;
  }
  if (!device::host_accessible) entry.times.ended_ns = now_ns();
  return true;
}

OpTimes Gpt2Stage::times(OpToken token) {
  return entries_[token.value % open_ops]->times;
}

}  // namespace adaptra::pipeline
