#pragma once
// From a deck to the things a run is made of. Pure, except for reading plan.file.

#include "data/sampler.hpp"
#include "deck/deck.hpp"
#include "driver/learning_rate.hpp"
#include "model/config.hpp"
#include "mpi/topology.hpp"
#include "plan/plan.hpp"

#include <string>
#include <vector>

namespace adaptra::driver {

model::Config model_config(const deck::Deck& deck);
model::Batch batch_of(const deck::Deck& deck);
mpi::Layout layout_of(const deck::Deck& deck);
LearningRate learning_rate_of(const deck::Deck& deck);
data::Sampler::Settings sampler_settings(const deck::Deck& deck);

/// What planning knows before anything has been measured: op times in proportion to their
/// arithmetic, at an assumed speed; memory as allocated.
plan::Profile estimated_profile(const deck::Deck& deck);

/// The plan of the run: plan.file, checked, or one made by plan.policy. Throws
/// Error{impossible_plan, usage, file}.
plan::Plan plan_of(const deck::Deck& deck);

/// Split of the layers, parameters, memory, tokens per step and the plan, as text for a person.
std::string dry_run_report(const deck::Deck& deck);

}  // namespace adaptra::driver
