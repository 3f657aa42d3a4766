#include "deck/keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace adaptra::deck {
namespace {

constexpr double many = 1e15;

// A row of the table: the two member pointers say where the value lives and what type it has.
template <typename Part, typename T>
Key row(const std::string& section, const std::string& name, Part Deck::*part, T Part::*member,
        const std::string& doc) {
  Key key;
  key.section = section;
  key.name = name;
  key.doc = doc;
  key.get = [=](const Deck& deck) { return Value(deck.*part.*member); };
  key.set = [=](Deck& deck, Value value) { deck.*part.*member = std::get<T>(std::move(value)); };
  return key;
}

Key between(double minimum, double maximum, Key key) {
  key.minimum = minimum;
  key.maximum = maximum;
  return key;
}

Key one_of(std::vector<std::string> choices, Key key) {
  key.choices = std::move(choices);
  return key;
}

std::vector<Key> make_keys() {
  const auto run = [](const std::string& n, auto m, const std::string& d) {
    return row("run", n, &Deck::run, m, d);
  };
  const auto model = [](const std::string& n, auto m, const std::string& d) {
    return row("model", n, &Deck::model, m, d);
  };
  const auto data = [](const std::string& n, auto m, const std::string& d) {
    return row("data", n, &Deck::data, m, d);
  };
  const auto training = [](const std::string& n, auto m, const std::string& d) {
    return row("training", n, &Deck::training, m, d);
  };
  const auto evaluation = [](const std::string& n, auto m, const std::string& d) {
    return row("evaluation", n, &Deck::evaluation, m, d);
  };
  const auto checkpoint = [](const std::string& n, auto m, const std::string& d) {
    return row("checkpoint", n, &Deck::checkpoint, m, d);
  };
  const auto parallel = [](const std::string& n, auto m, const std::string& d) {
    return row("parallel", n, &Deck::parallel, m, d);
  };
  const auto plan = [](const std::string& n, auto m, const std::string& d) {
    return row("plan", n, &Deck::plan, m, d);
  };
  const auto transport = [](const std::string& n, auto m, const std::string& d) {
    return row("transport", n, &Deck::transport, m, d);
  };
  const auto faults = [](const std::string& n, auto m, const std::string& d) {
    return row("faults", n, &Deck::faults, m, d);
  };

  return {
      run("name", &Run::name, "Name of the run, shown at start-up."),
      run("output_dir", &Run::output_dir,
          "Folder of the run's files, relative to the working directory. An existing run there is "
          "kept unless --overwrite is given."),
      between(0.1, 86400,
              run("peer_deadline_s", &Run::peer_deadline_s,
                  "Longest wait for another rank, in seconds; after it the run ends with exit code "
                  "4. Longer than the slowest op.")),

      between(1, 10000, model("layers", &Model::layers, "Transformer layers (L).")),
      between(1, 1e6,
              model("channels", &Model::channels,
                    "Width of the residual stream (C); a multiple of model.heads.")),
      between(1, 1e5, model("heads", &Model::heads, "Attention heads (H).")),
      between(1, 1e7,
              model("vocabulary", &Model::vocabulary,
                    "Token ids are below it (V): 50257 for GPT-2's, 256 for bytes. Stored "
                    "padded to a multiple of 128; the padding is masked.")),
      between(1, 1e7,
              model("context_tokens", &Model::context_tokens,
                    "Learned positions, the longest sequence (T).")),
      one_of({"fp32", "bf16"},
             model("precision", &Model::precision,
                   "Storage of weights in products and of activations. bf16 keeps master weights, "
                   "sums, LayerNorm, softmax and loss in fp32.")),
      between(0, 0.99,
              model("dropout", &Model::dropout,
                    "Probability, at the embedding, attention weights and both residuals.")),

      one_of({"text", "nanogpt", "llmc", "megatron"},
             data("kind", &Data::kind,
                  "text: files or folders, read as bytes (model.vocabulary at least 256); nanogpt: "
                  "headerless little-endian 16-bit tokens; llmc: token shards of llm.c; megatron: "
                  "indexed datasets (.idx and .bin). See docs/data.md.")),
      data("train", &Data::train,
           "Files, folders (walked) or globs, relative to the working directory; megatron: also "
           "prefixes."),
      data("validation", &Data::validation, "The same, for evaluation."),
      data("shuffle", &Data::shuffle, "Draw the sequences of an epoch in random order."),

      between(0, many, training("steps", &Training::steps, "Updates of the weights.")),
      between(1, 65000,
              training("microbatches", &Training::microbatches,
                       "Microbatches of a step and replica (N).")),
      between(1, 1e6,
              training("microbatch_sequences", &Training::microbatch_sequences,
                       "Sequences of a microbatch (B).")),
      between(0, 1e7,
              training("sequence_tokens", &Training::sequence_tokens,
                       "Tokens of a sequence; 0: model.context_tokens.")),
      between(0, many,
              training("seed", &Training::seed,
                       "Of the initial weights, the order of the data, and dropout.")),
      between(0, 1e3, training("learning_rate", &Training::learning_rate, "Peak learning rate.")),
      between(0, 1e3,
              training("minimum_learning_rate", &Training::minimum_learning_rate,
                       "Learning rate at and after decay_steps.")),
      between(0, many,
              training("warmup_steps", &Training::warmup_steps,
                       "Steps of the linear rise to the peak.")),
      between(0, many,
              training("decay_steps", &Training::decay_steps,
                       "Step at which the cosine reaches the minimum; 0: training.steps.")),
      between(0, 1e3,
              training("weight_decay", &Training::weight_decay,
                       "Decoupled decay of matrices and embeddings; biases and LayerNorm "
                       "have none.")),
      between(0, 0.999999,
              training("adam_beta1", &Training::adam_beta1, "Decay of the first moment.")),
      between(0, 0.999999,
              training("adam_beta2", &Training::adam_beta2, "Decay of the second moment.")),
      between(1e-30, 1,
              training("adam_epsilon", &Training::adam_epsilon,
                       "Added to the root of the second moment.")),
      between(0, 1e9,
              training("clip_norm", &Training::clip_norm,
                       "Largest global gradient norm; 0: no clipping.")),
      one_of({"stop", "skip_step"},
             training("on_nonfinite", &Training::on_nonfinite,
                      "If loss or gradient norm is not finite: stop (exit code 5) before the "
                      "weights are touched, or skip_step.")),

      between(0, many,
              evaluation("every_steps", &Evaluation::every_steps,
                         "Evaluate on data.validation after every so many steps; 0: never.")),
      between(1, 65000,
              evaluation("microbatches", &Evaluation::microbatches,
                         "Microbatches of an evaluation and replica.")),

      between(
          0, many,
          checkpoint("every_steps", &Checkpoint::every_steps,
                     "Write a checkpoint after every so many steps and at the end; 0: only when "
                     "the run is stopped early.")),
      between(1, 1e6,
              checkpoint("keep_last", &Checkpoint::keep_last,
                         "Newest checkpoints to keep; older ones are deleted.")),
      between(0, many,
              checkpoint("keep_every_steps", &Checkpoint::keep_every_steps,
                         "Checkpoints of these steps are kept for ever; 0: none.")),
      checkpoint("asynchronous", &Checkpoint::asynchronous,
                 "Write beside the steps that follow, which wait for a copy in memory only; false: "
                 "the step waits for the disk and no copy is held."),
      between(1, 86400,
              checkpoint("deadline_s", &Checkpoint::deadline_s,
                         "Longest wait for the slowest rank's writing, in seconds.")),

      between(1, 1e6, parallel("data", &Parallel::data, "Replicas of the pipeline.")),
      between(1, 1e4, parallel("pipeline", &Parallel::pipeline, "Stages of the pipeline (S).")),
      between(1, 1,
              parallel("tensor", &Parallel::tensor,
                       "Ranks that share a layer; only 1 in this release.")),
      parallel("order", &Parallel::order,
               "The three axes by how fast they vary from rank to rank, fastest first."),
      between(0, 4096,
              parallel("threads", &Parallel::threads,
                       "Host threads of a rank for its matrix products; 0: what "
                       "OMP_NUM_THREADS says, or all cores.")),

      one_of(
          {"gpipe", "1f1b", "zb-h1", "zb-h2", "greedy", "slackness", "adaptra"},
          plan("policy", &Plan::policy, "Rule that orders the ops of a step (docs/planner.md).")),
      plan("file", &Plan::file,
           "A plan (JSON) to run instead of one made by plan.policy; it is checked first."),
      between(0, 65000,
              plan("in_flight_limit", &Plan::in_flight_limit,
                   "Most microbatches in flight per stage; 0: as many as the policy likes.")),
      between(0, 1e7,
              plan("budget_ms", &Plan::budget_ms,
                   "Time that the adaptra policy may search, in milliseconds.")),

      one_of({"direct", "delegated"},
             transport("path", &Transport::path,
                       "direct: a stage waits until its message has left; delegated: it goes on at "
                       "once.")),
      one_of({"ucx", "mpi"},
             transport("wire", &Transport::wire,
                       "What carries the messages: ucx survives a lost rail, mpi does not "
                       "(docs/transport.md).")),
      transport("rails", &Transport::rails,
                "ucx: network devices to use, e.g. [\"mlx5_0:1\", \"mlx5_1:1\"]; empty: all usable "
                "ones. Rail i of one host is joined to rail i of the other."),
      one_of({"shared_memory", "network"},
             transport("same_host", &Transport::same_host,
                       "ucx: how ranks on one host reach each other.")),
      one_of({"event", "spin"},
             transport("wait", &Transport::wait,
                       "ucx: how the threads that move messages wait; spin is faster and takes a "
                       "core per link.")),
      transport("checksum", &Transport::checksum,
                "ucx: check every message's content, and send a damaged one again."),
      between(0.05, 3600,
              transport("rail_deadline_s", &Transport::rail_deadline_s,
                        "ucx: a rail over which nothing came for so long, in seconds, is given up "
                        "where another one is left.")),

      faults("inject", &Faults::inject,
             "ucx: faults to rehearse, each as \"latency links=6 steps=10:20 ms=30\" "
             "(docs/transport.md)."),
      faults("trace", &Faults::trace,
             "ucx: a file of latencies to rehearse, lines `step;i_j[,k_l...];seconds`."),
  };
}

std::string number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e7) return fmt::format("{:.0f}", value);
  return fmt::format("{:g}", value);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

}  // namespace

std::string Key::type_name() const {
  switch (default_value().index()) {
    case 0:
      return "integer";
    case 1:
      return "float";
    case 2:
      return "true or false";
    case 3:
      return "text";
    default:
      return "list of texts";
  }
}

std::string Key::range_text() const {
  if (!choices.empty()) return fmt::format("{}", fmt::join(choices, " | "));
  if (std::isinf(minimum)) return "";
  if (minimum == maximum) return number(minimum);
  return fmt::format("{} to {}", number(minimum), number(maximum));
}

const std::vector<Key>& keys() {
  static const std::vector<Key> table = make_keys();
  return table;
}

const Key* find_key(const std::string& full_name) {
  const auto& table = keys();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Key& key) { return key.full_name() == full_name; });
  return found == table.end() ? nullptr : &*found;
}

std::string to_toml(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* text = std::get_if<std::string>(&value)) return quoted(*text);
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    std::vector<std::string> parts;
    for (const auto& entry : *list) parts.push_back(quoted(entry));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
  // The shortest text that reads back as the same double, marked as a float for TOML.
  std::string text = fmt::format("{}", std::get<double>(value));
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

const std::vector<Section>& sections() {
  static const std::vector<Section> table = {
      {"run", "The run as a whole"},
      {"model", "The GPT-2 model"},
      {"data", "Where tokens come from"},
      {"training", "Steps, batch and optimizer"},
      {"evaluation", "Loss on data that is not trained on"},
      {"checkpoint", "Saved weights and optimizer state (docs/checkpointing.md)"},
      {"parallel", "How ranks share the work: data x pipeline x tensor ranks in all"},
      {"plan", "The order of the ops of a step"},
      {"transport", "How messages go from stage to stage"},
      {"faults", "Slow and failing links to rehearse"},
  };
  return table;
}

std::string reference_page() {
  std::string page =
      "# Deck reference\n\n"
      "Made from `src/deck/keys.cpp` by `adaptra-train --deck-reference`; a test holds this page "
      "to "
      "it. A deck is a TOML file; every key has a default. Keys end in their unit where they have "
      "one. On the command line, `section.key=value` overrides the deck. Integers are accepted "
      "where a float is meant, a text where a list of one is meant.\n";
  for (const auto& section : sections()) {
    page += fmt::format(
        "\n## [{}]\n\n{}.\n\n| key | type | default | range | meaning |\n|---|---|---|---|---|\n",
        section.name, section.doc);
    for (const auto& key : keys()) {
      if (key.section != section.name) continue;
      std::string range = key.range_text();
      std::string escaped;
      for (const char c : range) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
      page += fmt::format("| `{}` | {} | `{}` | {} | {} |\n", key.name, key.type_name(),
                          to_toml(key.default_value()), escaped, key.doc);
    }
  }
  return page;
}

}  // namespace adaptra::deck
