#include "driver/checkpoints.hpp"

#include "core/build_info.hpp"
#include "core/text.hpp"
#include "deck/keys.hpp"
#include "deck/read.hpp"
#include "device/host_copy.hpp"
#include "driver/run_folder.hpp"
#include "mpi/agree.hpp"

#include <fmt/format.h>

namespace adaptra::driver {

Checkpoints::Checkpoints(const mpi::Communicator& world, const deck::Deck& deck,
                         model::StageModel& model, const Log& log)
    : comm_(world.split(0, world.rank())),
      deck_(deck),
      model_(model),
      log_(log),
      folder_(RunFolder::checkpoints(deck.run.output_dir)) {
  checkpoint::Settings settings;
  settings.timing =
      deck.checkpoint.asynchronous ? checkpoint::Timing::background : checkpoint::Timing::blocking;
  settings.retention.keep_last = static_cast<int>(deck.checkpoint.keep_last);
  settings.retention.keep_every_steps = deck.checkpoint.keep_every_steps;
  settings.deadline_s = deck.checkpoint.deadline_s;
  writer_ = std::make_unique<checkpoint::Writer>(comm_, folder_, std::move(settings));
}

std::vector<checkpoint::TensorPart> Checkpoints::parts() {
  model_.finish();
  std::vector<checkpoint::TensorPart> all;
  const auto add = [&](const char* group, std::span<float> values, std::vector<float>& copy) {
    const auto buffer = device::on_host(values, copy);
    for (const auto& parameter : model_.parameters()) {
      all.push_back({group, parameter.name, parameter.shape,
                     buffer.subspan(static_cast<std::size_t>(parameter.offset),
                                    static_cast<std::size_t>(parameter.elements()))});
    }
  };
  add("weights", model_.weights(), host_weights_);
  add("adam_m", model_.first_moments(), host_moment1_);
  add("adam_v", model_.second_moments(), host_moment2_);
  return all;
}

checkpoint::RunState Checkpoints::state(const ResumePoint& at, std::uint64_t fingerprint,
                                        const std::string& plan) const {
  checkpoint::RunState state;
  state.step = at.step;
  state.integers = {{"updates", at.updates},
                    {"data.fingerprint", static_cast<std::int64_t>(fingerprint)},
                    {"model.layers", deck_.model.layers},
                    {"model.channels", deck_.model.channels},
                    {"model.heads", deck_.model.heads},
                    {"model.vocabulary", deck_.model.vocabulary},
                    {"model.context_tokens", deck_.model.context_tokens}};
  state.texts = {{"deck", deck::write_deck(deck_)}, {"build", build_line()}, {"plan", plan}};
  return state;
}

void Checkpoints::compare_decks(const checkpoint::RunState& saved, const std::string& file) const {
  const auto text = saved.texts.find("deck");
  if (text == saved.texts.end()) return;
  deck::Deck before;
  try {
    before = deck::parse_deck(text->second, file);
  } catch (const Error&) {
    log_.warn("{}: its deck is of another version of Adaptra and is not compared", file);
    return;
  }
  for (const auto& key : deck::keys()) {
    if (key.get(before) == key.get(deck_) || key.section == "run") continue;
    log_.info("changed since the checkpoint: {} = {} (was {})", key.full_name(),
              deck::to_toml(key.get(deck_)), deck::to_toml(key.get(before)));
  }
}

ResumePoint Checkpoints::resume(const std::string& from, std::uint64_t fingerprint) {
  std::filesystem::path file = from;
  if (from == "auto") {
    const auto latest = checkpoint::find_latest(comm_, folder_);
    for (const auto& line : latest.skipped) log_.warn("passed over: {}", line);
    if (!latest.file) {
      log_.info("no checkpoint in {}: starting from the beginning", folder_.string());
      return {};
    }
    file = *latest.file;
  }
  checkpoint::RunState saved;
  mpi::agree(comm_, [&] {
    saved = checkpoint::read_state(file);
    const auto wanted = state({}, 0, "").integers;
    for (const auto& [name, value] : saved.integers) {
      const auto ours = wanted.find(name);
      if (name.rfind("model.", 0) != 0 || ours == wanted.end() || ours->second == value) continue;
      throw Error(
          ExitCode::usage,
          fmt::format("{}: {} is {} there and {} in the deck: a checkpoint goes on only with "
                      "a model of its shape",
                      file.string(), name, value, ours->second));
    }
  });
  compare_decks(saved, file.string());
  const auto loaded = checkpoint::load(comm_, file, parts());
  device::back_to_device(host_weights_, model_.weights());
  device::back_to_device(host_moment1_, model_.first_moments());
  device::back_to_device(host_moment2_, model_.second_moments());
  model_.weights_changed();
  ResumePoint at;
  at.step = saved.step;
  at.updates = saved.integers.count("updates") != 0 ? saved.integers.at("updates") : saved.step;
  if (!loaded.absent_groups.empty()) {
    at = {};  // weights made elsewhere: a training of its own begins
    log_.info("{} has weights alone: training starts from them at step 1", file.string());
  } else {
    log_.info("resuming from {}: step {}", file.string(), at.step);
    const auto data = saved.integers.find("data.fingerprint");
    if (data != saved.integers.end() && data->second != static_cast<std::int64_t>(fingerprint)) {
      log_.warn(
          "the training data are not those of the checkpoint: the order of sequences differs");
    }
    saved_step_ = at.step;
  }
  return at;
}

void Checkpoints::report(const checkpoint::Report& done) {
  log_.info("checkpoint {}: {} at {:.2f} GB/s, the steps waited {:.0f} ms", done.file.string(),
            format_bytes(done.bytes), done.gb_per_s(), done.waited_s * 1e3);
}

void Checkpoints::start(const ResumePoint& at, std::uint64_t fingerprint, const std::string& plan) {
  if (auto done = writer_->finish()) report(*done);  // the one before, if it is still being written
  const auto tensors = parts();
  writer_->start(at.step, tensors, state(at, fingerprint, plan));
  saved_step_ = at.step;
}

void Checkpoints::at_border(const ResumePoint& at, std::uint64_t fingerprint,
                            const std::string& plan) {
  const auto every = deck_.checkpoint.every_steps;
  try {
    if (writer_->running()) {
      if (auto done = writer_->poll()) report(*done);
    }
    if (every > 0 && at.step % every == 0 && at.step != saved_step_) start(at, fingerprint, plan);
  } catch (const Error& error) {
    if (error.code() != ExitCode::file) throw;
    saved_step_ = -1;
    if (dynamic_cast<const mpi::ElsewhereError*>(&error) == nullptr) {
      log_.local_warn("step {}: no checkpoint: {}; training goes on", at.step, error.what());
    }
  }
}

void Checkpoints::save(const ResumePoint& at, std::uint64_t fingerprint, const std::string& plan) {
  if (at.step != saved_step_) start(at, fingerprint, plan);
  if (auto done = writer_->finish()) report(*done);
}

}  // namespace adaptra::driver
