#include "driver/setup.hpp"

#include "core/error.hpp"
#include "core/text.hpp"
#include "pipeline/gpt2_stage.hpp"
#include "plan/check.hpp"
#include "plan/generate.hpp"

#include <fmt/format.h>

#include <numeric>

namespace adaptra::driver {
namespace {

// Only proportions matter to a plan without delays; this makes them readable times.
constexpr double assumed_flops_per_ns = 100;

std::int64_t duration_ns(double flops) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(flops / assumed_flops_per_ns));
}

std::int64_t stage_bytes(const model::Config& config, const model::StagePart& part,
                         const model::Batch& batch, const model::Capacity& capacity) {
  const auto memory = model::memory_of(config, part, batch);
  return memory.fixed() + capacity.activations.units() * memory.block +
         capacity.in_flight * memory.statistics;
}

}  // namespace

model::Config model_config(const deck::Deck& deck) {
  model::Config config;
  config.layers = static_cast<int>(deck.model.layers);
  config.channels = static_cast<int>(deck.model.channels);
  config.heads = static_cast<int>(deck.model.heads);
  config.vocabulary = static_cast<int>(deck.model.vocabulary);
  config.context_tokens = static_cast<int>(deck.model.context_tokens);
  config.precision =
      deck.model.precision == "bf16" ? model::Precision::bf16 : model::Precision::fp32;
  config.dropout = deck.model.dropout;
  config.seed = static_cast<std::uint64_t>(deck.training.seed);
  return config;
}

model::Batch batch_of(const deck::Deck& deck) {
  return {static_cast<int>(deck.training.microbatch_sequences),
          static_cast<int>(deck.sequence_tokens())};
}

mpi::Layout layout_of(const deck::Deck& deck) {
  return {static_cast<int>(deck.parallel.data), static_cast<int>(deck.parallel.pipeline),
          static_cast<int>(deck.parallel.tensor), deck.parallel.order};
}

LearningRate learning_rate_of(const deck::Deck& deck) {
  return {deck.training.learning_rate, deck.training.minimum_learning_rate,
          deck.training.warmup_steps, deck.decay_steps()};
}

data::Sampler::Settings sampler_settings(const deck::Deck& deck) {
  data::Sampler::Settings settings;
  settings.sequence_tokens = static_cast<int>(deck.sequence_tokens());
  settings.microbatch_sequences = static_cast<int>(deck.training.microbatch_sequences);
  settings.microbatches = static_cast<int>(deck.training.microbatches);
  settings.replicas = static_cast<int>(deck.parallel.data);
  settings.shuffled = deck.data.shuffle;
  settings.seed = static_cast<std::uint64_t>(deck.training.seed);
  return settings;
}

plan::Profile estimated_profile(const deck::Deck& deck) {
  const auto config = model_config(deck);
  const auto batch = batch_of(deck);
  const auto parts = model::split_layers(config, static_cast<int>(deck.parallel.pipeline), batch);
  plan::Profile profile = plan::uniform_profile(
      static_cast<int>(parts.size()), static_cast<int>(deck.training.microbatches), 1, 1, 1);
  profile.name = deck.run.name;
  profile.source = "estimated from the arithmetic of the model";
  profile.activation_bytes.clear();
  profile.activation_bytes_after_b.clear();
  for (std::size_t s = 0; s < parts.size(); ++s) {
    const auto work = model::work_of(config, parts[s], batch);
    profile.forward_ns[s] = duration_ns(work.forward);
    profile.backward_input_ns[s] = duration_ns(work.backward_input);
    profile.backward_weight_ns[s] = duration_ns(work.backward_weight);
    const auto memory = model::memory_of(config, parts[s], batch);
    const auto blocks = model::activation_blocks(parts[s]);
    profile.activation_bytes.push_back(memory.activation(blocks));
    profile.activation_bytes_after_b.push_back(memory.activation_after_b(blocks));
  }
  for (auto& link : profile.links) {
    link.mode =
        deck.transport.path == "direct" ? plan::LinkMode::direct : plan::LinkMode::delegated;
  }
  return profile;
}

plan::Plan plan_of(const deck::Deck& deck) {
  plan::Profile profile = estimated_profile(deck);
  plan::PlanOptions options;
  options.in_flight_limit = static_cast<int>(deck.plan.in_flight_limit);
  options.budget_ms = deck.plan.budget_ms;
  options.seed = static_cast<std::uint64_t>(deck.training.seed);
  if (!deck.plan.file.empty()) {
    auto plan = plan::read_plan(deck.plan.file);
    plan.status().throw_if_error();
    if (plan->stages != profile.stages || plan->microbatches != profile.microbatches) {
      throw Error(ExitCode::impossible_plan,
                  fmt::format("plan.file {} is for {} stages and {} microbatches, the deck has "
                              "parallel.pipeline = {} and training.microbatches = {}",
                              deck.plan.file, plan->stages, plan->microbatches, profile.stages,
                              profile.microbatches));
    }
    auto checked = plan::plan_of_order(profile, plan->order, plan->policy, options);
    checked.status().throw_if_error();
    return std::move(checked).value();
  }
  const auto policy = plan::parse_policy(deck.plan.policy);
  policy.status().throw_if_error();
  auto plan = plan::make_plan(profile, policy.value(), options);
  plan.status().throw_if_error();
  return std::move(plan).value();
}

std::string dry_run_report(const deck::Deck& deck) {
  const auto config = model_config(deck);
  const auto batch = batch_of(deck);
  const auto parts = model::split_layers(config, static_cast<int>(deck.parallel.pipeline), batch);
  const auto plan = plan_of(deck);
  std::string text = fmt::format(
      "model: {} layers, {} channels, {} heads, vocabulary {} (stored {}), context {}, {}: {} "
      "parameters ({})\n"
      "ranks: data {} x pipeline {} x tensor {} = {}\n"
      "step: {} microbatches x {} sequences x {} tokens x {} replicas = {} tokens\n"
      "{:>5}  {:>11}  {:>14}  {:>12}  {:>12}  {:>10}  {:>7}  {:>9}\n",
      config.layers, config.channels, config.heads, config.vocabulary, config.padded_vocabulary(),
      config.context_tokens, deck.model.precision, model::parameter_count(config),
      format_count(static_cast<double>(model::parameter_count(config))), deck.parallel.data,
      deck.parallel.pipeline, deck.parallel.tensor, layout_of(deck).ranks(),
      deck.training.microbatches, batch.sequences, batch.tokens, deck.parallel.data,
      deck.tokens_per_step(), "stage", "layers", "parameters", "weights etc.", "activations",
      "all memory", "bubble", "in flight");
  for (std::size_t s = 0; s < parts.size(); ++s) {
    const auto& part = parts[s];
    const auto capacity = pipeline::capacity_for(part, plan.order.stages[s], plan.microbatches);
    const auto memory = model::memory_of(config, part, batch);
    const auto all = stage_bytes(config, part, batch, capacity);
    text += fmt::format("{:>5}  {:>11}  {:>14}  {:>12}  {:>12}  {:>10}  {:>6.1f}%  {:>9}\n", s,
                        fmt::format("{}{}-{}{}", part.embedding ? "emb " : "", part.first_layer,
                                    part.first_layer + part.layers - 1, part.head ? " head" : ""),
                        model::parameter_count(config, part),
                        format_bytes(static_cast<std::uint64_t>(memory.fixed())),
                        format_bytes(static_cast<std::uint64_t>(all - memory.fixed())),
                        format_bytes(static_cast<std::uint64_t>(all)), 100 * plan.bubble[s],
                        plan.in_flight_peak[s]);
  }
  const auto message = model::memory_of(config, parts[0], batch).message;
  text += fmt::format("plan: {} v{}; by arithmetic alone {:.1f} % of the stages' time is bubble\n",
                      plan.policy, plan.plan_version,
                      100 * std::accumulate(plan.bubble.begin(), plan.bubble.end(), 0.0) /
                          static_cast<double>(plan.bubble.size()));
  for (const auto& adjustment : plan.adjustments) text += "  note: " + adjustment + "\n";
  text +=
      fmt::format("links: {} per message, {} each way and step",
                  format_bytes(static_cast<std::uint64_t>(message)), deck.training.microbatches);
  return text;
}

}  // namespace adaptra::driver
