#pragma once
// The input deck: everything a user can set, as plain structs. What each key means, its unit and
// range, is said once, in keys.cpp; docs/deck_reference.md is made from there. No behaviour here,
// no I/O.

#include <cstdint>
#include <string>
#include <vector>

namespace adaptra::deck {

struct Run {
  std::string name = "adaptra";
  std::string output_dir = "runs/adaptra";
  double peer_deadline_s = 60;
};

struct Model {
  std::int64_t layers = 12;
  std::int64_t channels = 768;
  std::int64_t heads = 12;
  std::int64_t vocabulary = 50257;
  std::int64_t context_tokens = 1024;
  std::string precision = "fp32";
  double dropout = 0;
};

struct Data {
  std::string kind = "text";
  std::vector<std::string> train;
  std::vector<std::string> validation;
  bool shuffle = true;
};

struct Training {
  std::int64_t steps = 100;
  std::int64_t microbatches = 8;
  std::int64_t microbatch_sequences = 1;
  std::int64_t sequence_tokens = 0;  // 0: model.context_tokens
  std::int64_t seed = 1;
  double learning_rate = 6e-4;
  double minimum_learning_rate = 6e-5;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;  // 0: training.steps
  double weight_decay = 0.1;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.95;
  double adam_epsilon = 1e-8;
  double clip_norm = 1;
  std::string on_nonfinite = "stop";
};

struct Evaluation {
  std::int64_t every_steps = 0;
  std::int64_t microbatches = 8;
};

struct Parallel {
  std::int64_t data = 1;
  std::int64_t pipeline = 1;
  std::int64_t tensor = 1;
  std::vector<std::string> order = {"tensor", "data", "pipeline"};
  std::int64_t threads = 1;
};

struct Plan {
  std::string policy = "1f1b";
  std::string file;
  std::int64_t in_flight_limit = 0;
  double budget_ms = 2000;
};

struct Transport {
  std::string path = "delegated";
  std::string wire = "ucx";
  std::vector<std::string> rails;
  std::string same_host = "shared_memory";
  std::string wait = "event";
  bool checksum = false;
  double rail_deadline_s = 2;
};

struct Faults {
  std::vector<std::string> inject;
  std::string trace;
};

struct Checkpoint {
  std::int64_t every_steps = 0;
  std::int64_t keep_last = 3;
  std::int64_t keep_every_steps = 0;
  bool asynchronous = true;
  double deadline_s = 1800;
};

struct Deck {
  Run run;
  Model model;
  Data data;
  Training training;
  Evaluation evaluation;
  Checkpoint checkpoint;
  Parallel parallel;
  Plan plan;
  Transport transport;
  Faults faults;

  std::int64_t sequence_tokens() const {
    return training.sequence_tokens > 0 ? training.sequence_tokens : model.context_tokens;
  }
  std::int64_t decay_steps() const {
    if (training.decay_steps > 0) return training.decay_steps;
    return training.steps > training.warmup_steps ? training.steps : training.warmup_steps;
  }
  /// Tokens of one step over all replicas.
  std::int64_t tokens_per_step() const {
    return parallel.data * training.microbatches * training.microbatch_sequences *
           sequence_tokens();
  }
};

}  // namespace adaptra::deck
