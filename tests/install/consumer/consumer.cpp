// Uses the installed libraries as another project would.
#include "plan/plan.hpp"
#ifdef WITH_MODEL
#include "deck/read.hpp"
#include "model/config.hpp"
#endif

int main() {
  const auto profile = adaptra::plan::uniform_profile(4, 12, 10, 10, 10);
  const auto plan = adaptra::plan::make_plan(profile, adaptra::plan::Policy::greedy);
  if (!plan.ok() || plan.value().makespan_ns != 390) return 1;
#ifdef WITH_MODEL
  const auto deck = adaptra::deck::parse_deck("data.train = \"x\"", "inline");
  adaptra::model::Config config;
  config.layers = static_cast<int>(deck.model.layers);
  if (adaptra::model::parameter_count(config) != 124439808) return 2;
#endif
  return 0;
}
