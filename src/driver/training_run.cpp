#include "driver/training_run.hpp"

#include "core/build_info.hpp"
#include "core/progress.hpp"
#include "core/text.hpp"
#include "data/token_source.hpp"
#include "deck/read.hpp"
#include "device/host_copy.hpp"
#include "device/session.hpp"
#include "driver/checkpoints.hpp"
#include "driver/links.hpp"
#include "driver/setup.hpp"
#include "driver/step_summary.hpp"
#include "driver/watchdog.hpp"
#include "mpi/agree.hpp"
#include "pipeline/executor.hpp"
#include "pipeline/gpt2_stage.hpp"
#include "transport/reduce.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <zlib.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

namespace adaptra::driver {
namespace {

using pipeline::Gpt2Stage;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Everything that one rank holds during a run. Members die in reverse order: channels before
/// communicators, the model before Kokkos.
class TrainingRun {
 public:
  TrainingRun(const deck::Deck& deck, const RunOptions& options, mpi::Session& session)
      : deck_(deck),
        options_(options),
        session_(session),
        world_(mpi::Communicator::world(deck.run.peer_deadline_s)),
        topology_(world_, layout_of(deck)),
        self_(topology_.describe(Rank(session.rank()))),
        log_(session.rank() == 0 ? Log::Role::leads : Log::Role::follows, self_),
        wire_(topology_.pipeline().split(0, topology_.pipeline().rank())) {
    open_data();
    make_plan();
    make_stage();
    make_channels();
    prepare_folder();  // nothing is written before all the rest has been found good
    start_watchdog();
    announce();
    resume();
  }

  ExitCode train();

 private:
  void open_data();
  void make_plan();
  void make_stage();
  void make_channels();
  void prepare_folder();
  void start_watchdog();
  void announce();
  void resume();

  StepSummary run_step(std::int64_t step);
  StopRequest stop_requested();
  bool take_control_file(const char* name);
  std::optional<ExitCode> at_border(const StepSummary& summary);
  void join_tied_embedding();
  void reduce_replicas();
  double own_loss_sum(std::size_t microbatches);
  std::optional<ExitCode> refuse_nonfinite(std::int64_t step, const StepSummary& summary);
  void update(std::int64_t step, const StepSummary& summary);
  void report(std::int64_t step, const StepSummary& summary, double step_s);
  void evaluate(std::int64_t step);
  std::string weights_fingerprint();
  model::StageModel& model() { return stage_->model(); }
  const std::vector<plan::Op>& order() const {
    return plan_.order.stages[static_cast<std::size_t>(topology_.stage().value)];
  }

  deck::Deck deck_;
  RunOptions options_;
  mpi::Session& session_;
  mpi::Communicator world_;
  mpi::Topology topology_;
  std::string self_;
  Log log_;
  mpi::Communicator wire_;  // messages between stages, apart from the control path
  Progress progress_;
  std::unique_ptr<Watchdog> watchdog_;
  std::unique_ptr<StepLog> step_log_;
  std::unique_ptr<device::Session> device_;
  std::unique_ptr<data::TokenSource> train_data_, validation_data_;
  std::unique_ptr<data::Sampler> sampler_, validation_sampler_;
  plan::Plan plan_;
  std::vector<model::StagePart> parts_;
  std::unique_ptr<Gpt2Stage> stage_;
  faults::Schedule faults_;
  std::unique_ptr<transport::Channel> previous_, next_;
  std::unique_ptr<pipeline::Executor> executor_;
  std::unique_ptr<transport::Reducer> reducer_;
  std::unique_ptr<Checkpoints> checkpoints_;
  ResumePoint at_;  // behind the last step done
  Clock::time_point started_ = Clock::now();
  double slowest_step_s_ = 0;
  double measured_s_ = 0;  // of the steps after the first, which warms caches up
  std::int64_t measured_steps_ = 0;
  bool warm_ = false;
};

void TrainingRun::prepare_folder() {
  const std::filesystem::path folder = deck_.run.output_dir;
  mpi::agree(world_, [&] {
    if (world_.rank() != 0) return;
    RunFolder::prepare(folder, options_.existing);
    write_file(RunFolder::used_config(folder), deck::write_deck(deck_));
    step_log_ = std::make_unique<StepLog>(RunFolder::step_log(folder));
  });
}

void TrainingRun::start_watchdog() {
  Watchdog::Settings settings;
  settings.self = self_;
  settings.post_mortem = RunFolder::post_mortem(deck_.run.output_dir);
  const auto& peers = topology_.peers();
  const auto& me = peers[static_cast<std::size_t>(world_.rank())];
  settings.speaks_first = me.local_rank;
  for (int r = 0; r < world_.size(); ++r) {
    const auto& peer = peers[static_cast<std::size_t>(r)];
    if (r != world_.rank() && peer.host == me.host) {
      settings.peers.push_back({peer.pid, topology_.describe(Rank(r))});
    }
  }
  watchdog_ = std::make_unique<Watchdog>(std::move(settings), progress_);
}

void TrainingRun::open_data() {
  mpi::agree(world_, [&] {
    train_data_ = data::open_tokens(deck_.data.kind, deck_.data.train, deck_.model.vocabulary);
    sampler_ = std::make_unique<data::Sampler>(*train_data_, sampler_settings(deck_));
    if (deck_.evaluation.every_steps == 0) return;
    validation_data_ =
        data::open_tokens(deck_.data.kind, deck_.data.validation, deck_.model.vocabulary);
    auto settings = sampler_settings(deck_);
    settings.microbatches = static_cast<int>(deck_.evaluation.microbatches);
    settings.shuffled = false;
    validation_sampler_ = std::make_unique<data::Sampler>(*validation_data_, settings);
  });
}

void TrainingRun::make_plan() {
  // One rank plans for all: a search that is limited by time finds something else on each.
  std::string text;
  mpi::agree(world_, [&] {
    if (world_.rank() == 0) text = plan::to_json(plan_of(deck_));
  });
  auto plan = plan::parse_plan(world_.broadcast(text, 0));
  plan.status().throw_if_error();
  plan_ = std::move(plan).value();
}

void TrainingRun::make_stage() {
  const auto config = model_config(deck_);
  const auto batch = batch_of(deck_);
  parts_ = model::split_layers(config, topology_.layout().pipeline, batch);
  mpi::agree(world_, [&] {
    device_ = std::make_unique<device::Session>(
        topology_.peers()[static_cast<std::size_t>(world_.rank())].local_rank,
        static_cast<int>(deck_.parallel.threads));
    const auto& part = parts_[static_cast<std::size_t>(topology_.stage().value)];
    auto capacity = pipeline::capacity_for(part, order(), plan_.microbatches);
    capacity.microbatches =
        std::max(capacity.microbatches, static_cast<int>(deck_.evaluation.microbatches));
    stage_ = std::make_unique<Gpt2Stage>(model::StageModel::make(config, part, batch, capacity),
                                         topology_.at().data,
                                         1.0 / static_cast<double>(deck_.tokens_per_step()));
    std::int64_t built = 0;
    for (const auto& parameter : model().parameters()) built += parameter.elements();
    // What the stages built must be the model, no layer lost in the split.
    const auto counts = topology_.pipeline().gather_all(std::vector{static_cast<double>(built)});
    double all = 0;
    for (const auto& count : counts) all += count[0];
    if (parts_.size() > 1)
      all -= static_cast<double>(deck_.model.vocabulary * deck_.model.channels);
    if (static_cast<std::int64_t>(all) != model::parameter_count(config)) {
      throw Error(ExitCode::internal,
                  fmt::format("the stages hold {:.0f} parameters, the model has {}", all,
                              model::parameter_count(config)));
    }
  });
}

void TrainingRun::make_channels() {
  const int stage = topology_.stage().value;
  const auto slots = [&](int link) {
    // In flight on a link at most what the stage above is ahead of the one below, and two in
    // motion.
    const int ahead = plan_.warmup[static_cast<std::size_t>(link)] -
                      plan_.warmup[static_cast<std::size_t>(link) + 1];
    return std::min(plan_.microbatches, std::max(0, ahead) + 2);
  };
  const auto make = [&](int link, transport::Direction sends, int peer) {
    return make_link(deck_, wire_,
                     {LinkId(link), sends, peer, stage_->message_bytes(), slots(link)}, faults_);
  };
  mpi::agree(world_, [&] { faults_ = fault_schedule(deck_); });
  mpi::agree(world_, [&] {
    if (!topology_.first_stage()) {
      previous_ = make(stage - 1, transport::Direction::backward, stage - 1);
    }
    if (!topology_.last_stage()) next_ = make(stage, transport::Direction::forward, stage + 1);
    const auto rule = deck_.transport.path == "direct" ? pipeline::SendRule::direct
                                                       : pipeline::SendRule::delegated;
    executor_ = std::make_unique<pipeline::Executor>(
        *stage_, pipeline::LinkEnd{previous_.get(), rule}, pipeline::LinkEnd{next_.get(), rule},
        progress_, deck_.run.peer_deadline_s);
    reducer_ = std::make_unique<transport::Reducer>(topology_.data());
  });
}

std::string memlock_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : format_bytes(limit.rlim_cur);
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

void TrainingRun::announce() {
  const auto rows = world_.gather_all(
      fmt::format("{:>4}  {:>7}  {:>5}  {:<16}  {:>5}  {:<34}  {:>9}  {:>10}", world_.rank(),
                  topology_.at().data, topology_.at().pipeline,
                  topology_.peers()[static_cast<std::size_t>(world_.rank())].host, usable_cores(),
                  device_->describe(), memlock_limit(),
                  format_bytes(static_cast<std::uint64_t>(model().allocated_bytes()))));
  log_.info("{}, {}", build_line(), session_.library());
  log_.info("run '{}' in {}", deck_.run.name, deck_.run.output_dir);
  log_.info("{}", dry_run_report(deck_));
  log_.info("{:>4}  {:>7}  {:>5}  {:<16}  {:>5}  {:<34}  {:>9}  {:>10}", "rank", "replica", "stage",
            "host", "cores", "device", "memlock", "memory");
  for (const auto& row : rows) log_.info("{}", row);
  std::string crossing;
  for (int link = 0; link + 1 < topology_.layout().pipeline; ++link) {
    const auto host_of = [&](int stage) {
      const auto rank = mpi::rank_of(topology_.layout(), {0, stage, 0});
      return topology_.peers()[static_cast<std::size_t>(rank.value)].host;
    };
    if (host_of(link) != host_of(link + 1)) {
      crossing += fmt::format("{}{}-{}", crossing.empty() ? "" : ", ", link, link + 1);
    }
  }
  const auto paths = world_.gather_all(next_ ? next_->path() : std::string());
  std::string by_link;
  for (int link = 0; link + 1 < topology_.layout().pipeline; ++link) {
    const auto rank = mpi::rank_of(topology_.layout(), {0, link, 0});
    by_link += fmt::format("{}{}-{} {}", by_link.empty() ? "" : ", ", link, link + 1,
                           paths[static_cast<std::size_t>(rank.value)]);
  }
  log_.info("wire: {}, {}; links: {}; between hosts: {}", deck_.transport.wire,
            deck_.transport.path, by_link.empty() ? "none" : by_link,
            crossing.empty() ? "none" : crossing);
  log_.info("data: {} tokens, {} sequences per epoch", train_data_->size(), sampler_->sequences());
}

void TrainingRun::resume() {
  checkpoints_ = std::make_unique<Checkpoints>(world_, deck_, model(), log_);
  if (!options_.resume.empty()) {
    at_ = checkpoints_->resume(options_.resume, train_data_->fingerprint());
  }
}

// Rank 0 looks for <output_dir>/control/NAME and takes it away: true once per file.
bool TrainingRun::take_control_file(const char* name) {
  std::error_code ignored;
  return world_.rank() == 0 &&
         std::filesystem::remove(RunFolder::control(deck_.run.output_dir) / name, ignored);
}

StopRequest TrainingRun::stop_requested() {
  auto request = stop_requested_by_signal();
  if (take_control_file("stop")) request = std::max(request, StopRequest::by_request);
  // Another step and the checkpoint must fit into what is left.
  const double reserve_s = 2 * slowest_step_s_ + 5;
  if (options_.max_time_s > 0 && seconds_since(started_) + reserve_s > options_.max_time_s) {
    request = std::max(request, StopRequest::time_nearly_up);
  }
  return request;
}

double TrainingRun::own_loss_sum(std::size_t microbatches) {
  if (!topology_.last_stage()) return 0;
  const auto losses = model().losses();
  double sum = 0;
  for (std::size_t k = 0; k < microbatches; ++k) sum += losses[k];
  return sum;
}

void TrainingRun::join_tied_embedding() {
  if (!topology_.first_stage() && !topology_.last_stage()) return;
  if (topology_.layout().pipeline > 1) {
    const int peer = topology_.first_stage() ? topology_.layout().pipeline - 1 : 0;
    std::vector<float> own, other;
    transport::exchange(wire_, peer, device::on_host(model().tied_own(), own),
                        device::on_host(model().tied_other(), other))
        .throw_if_error();
    device::back_to_device(other, model().tied_other());
  }
  model().add_tied();
}

void TrainingRun::reduce_replicas() {
  if (topology_.layout().data == 1) return;
  model().finish();
  std::vector<float> copy;
  reducer_->sum(device::on_host(model().gradients(), copy)).throw_if_error();
  device::back_to_device(copy, model().gradients());
}

StepSummary TrainingRun::run_step(std::int64_t step) {
  progress_.set_step(step);
  stage_->begin_step(step, Gpt2Stage::Mode::training, *sampler_);
  executor_->run(step, order()).throw_if_error();
  for (auto* channel : {previous_.get(), next_.get()}) {
    if (channel == nullptr) continue;
    for (const auto& line : channel->take_reports()) log_.local_warn("step {}: {}", step, line);
  }
  progress_.set(Phase::reduction);
  model().finish();
  join_tied_embedding();
  reduce_replicas();
  progress_.set(Phase::norm);
  RankSummary mine;
  mine.replica = topology_.at().data;
  mine.stop = stop_requested();
  mine.save = take_control_file("save");
  mine.memory_bytes = resident_bytes();
  mine.loss_sum = own_loss_sum(static_cast<std::size_t>(plan_.microbatches));
  const auto squares = model().gradient_squares();
  for (std::size_t p = 0; p < squares.size(); ++p) {
    const auto& parameter = model().parameters()[p];
    if (parameter.index == 0 && !topology_.first_stage()) continue;
    mine.squares.emplace_back(parameter.index, squares[p]);
  }
  return agree_on_step(world_, mine, deck_.tokens_per_step());
}

std::optional<ExitCode> TrainingRun::refuse_nonfinite(std::int64_t step,
                                                      const StepSummary& summary) {
  std::string where = "the loss";
  if (summary.first_bad_parameter >= 0) {
    for (std::size_t s = 0; s < parts_.size(); ++s) {
      for (const auto& parameter : model::list_parameters(model().config(), parts_[s])) {
        if (parameter.index == summary.first_bad_parameter) {
          where = fmt::format("the gradient of {} (stage {})", parameter.name, s);
        }
      }
    }
  }
  const std::string text = fmt::format("step {}: {} is not finite (loss {}, gradient norm {})",
                                       step, where, summary.loss, summary.norm);
  if (deck_.training.on_nonfinite == "skip_step") {
    log_.warn("{}; the step is skipped", text);
    return std::nullopt;
  }
  append_line(RunFolder::post_mortem(deck_.run.output_dir), self_ + ": " + text);
  log_.warn(
      "{}; the weights are those of step {}; a smaller learning rate or clip_norm may help, "
      "or training.on_nonfinite = \"skip_step\"",
      text, step - 1);
  return ExitCode::numerics;
}

void TrainingRun::update(std::int64_t step, const StepSummary& summary) {
  progress_.set(Phase::optimizer);
  const auto& t = deck_.training;
  model::AdamW adam;
  adam.learning_rate = learning_rate_of(deck_).at(step);
  adam.beta1 = t.adam_beta1;
  adam.beta2 = t.adam_beta2;
  adam.epsilon = t.adam_epsilon;
  adam.weight_decay = t.weight_decay;
  adam.update = ++at_.updates;
  if (t.clip_norm > 0 && summary.norm > t.clip_norm)
    adam.gradient_scale = t.clip_norm / summary.norm;
  model().update(adam);
  model().finish();
}

void TrainingRun::report(std::int64_t step, const StepSummary& summary, double step_s) {
  if (measured_steps_ > 0 || std::exchange(warm_, true)) {
    measured_s_ += step_s;
    ++measured_steps_;
  }
  if (!step_log_) return;
  const double tokens_per_s = static_cast<double>(deck_.tokens_per_step()) / step_s;
  const double tflops =
      tokens_per_s * model::flops_per_token(model().config(), batch_of(deck_).tokens) / 1e12;
  const double rate = learning_rate_of(deck_).at(step);
  const double mean_s =
      measured_steps_ > 0 ? measured_s_ / static_cast<double>(measured_steps_) : step_s;
  const double left_s = mean_s * static_cast<double>(deck_.training.steps - step);
  log_.info(
      "step {:>6}/{}  loss {:.4f}  lr {:.2e}  norm {:.3f}  {} tokens/s  {:.3f} TFLOP/s  {:.0f} ms  "
      "ETA {}  plan v{}",
      step, deck_.training.steps, summary.loss, rate, summary.norm, format_count(tokens_per_s),
      tflops, step_s * 1e3, format_duration_s(left_s), plan_.plan_version);
  step_log_->write({{"step", step},
                    {"loss", summary.loss},
                    {"lr", rate},
                    {"grad_norm", summary.norm},
                    {"tokens", deck_.tokens_per_step()},
                    {"tokens_per_s", tokens_per_s},
                    {"tflop_per_s", tflops},
                    {"step_ms", step_s * 1e3},
                    {"memory_bytes", summary.memory_bytes},
                    {"plan_version", plan_.plan_version}});
}

void TrainingRun::evaluate(std::int64_t step) {
  progress_.set(Phase::evaluation);
  std::vector<plan::Op> forwards;
  for (int k = 0; k < deck_.evaluation.microbatches; ++k) {
    forwards.push_back({plan::OpKind::forward, k});
  }
  // Step 1 of the validation sampler: the same microbatches every time.
  stage_->begin_step(1, Gpt2Stage::Mode::evaluation, *validation_sampler_);
  executor_->run(step, forwards).throw_if_error();
  RankSummary mine;
  mine.replica = topology_.at().data;
  mine.loss_sum = own_loss_sum(forwards.size());
  const auto tokens = deck_.parallel.data * deck_.evaluation.microbatches *
                      deck_.training.microbatch_sequences * deck_.sequence_tokens();
  const auto summary = agree_on_step(world_, mine, tokens);
  log_.info("step {:>6}  validation loss {:.4f}", step, summary.loss);
  if (step_log_) step_log_->write({{"step", step}, {"validation_loss", summary.loss}});
}

// A checksum of every weight in model order: equal for runs that are equal to the last bit.
std::string TrainingRun::weights_fingerprint() {
  std::vector<double> mine;
  if (topology_.at().data == 0) {
    const auto weights = Kokkos::create_mirror_view_and_copy(
        Kokkos::HostSpace(), Kokkos::View<const float*, device::Memory, Kokkos::MemoryUnmanaged>(
                                 model().weights().data(), model().weights().size()));
    for (const auto& parameter : model().parameters()) {
      if (parameter.index == 0 && !topology_.first_stage()) continue;
      const auto sum = crc32(0, reinterpret_cast<const Bytef*>(weights.data() + parameter.offset),
                             static_cast<uInt>(parameter.elements() * 4));
      mine.push_back(parameter.index);
      mine.push_back(static_cast<double>(sum));
    }
  }
  std::map<int, std::uint32_t> sums;
  for (const auto& part : world_.gather_all(mine)) {
    for (std::size_t i = 0; i + 1 < part.size(); i += 2) {
      sums[static_cast<int>(part[i])] = static_cast<std::uint32_t>(part[i + 1]);
    }
  }
  uLong all = crc32(0, nullptr, 0);
  for (const auto& [index, sum] : sums) {
    all = crc32(all, reinterpret_cast<const Bytef*>(&sum), sizeof sum);
  }
  return fmt::format("{:08x}", all);
}

// Checkpoints that are due, and requests to save or stop, which all ranks have agreed on.
std::optional<ExitCode> TrainingRun::at_border(const StepSummary& summary) {
  progress_.set(Phase::checkpoint);
  const auto plan = plan::to_json(plan_);
  checkpoints_->at_border(at_, train_data_->fingerprint(), plan);
  const bool stop = summary.stop != StopRequest::none && at_.step < deck_.training.steps;
  if (stop || summary.save) checkpoints_->save(at_, train_data_->fingerprint(), plan);
  if (!stop) return std::nullopt;
  log_.info("stopped after step {} {}; go on with --resume", at_.step,
            summary.stop == StopRequest::by_request ? "as asked" : "because time is nearly up");
  return summary.stop == StopRequest::by_request ? ExitCode::stopped_by_request
                                                 : ExitCode::stopped_early;
}

ExitCode TrainingRun::train() {
  ExitCode outcome = ExitCode::done;
  try {
    while (at_.step < deck_.training.steps) {
      const std::int64_t step = at_.step + 1;
      const auto begin = Clock::now();
      const StepSummary summary = run_step(step);
      if (summary.finite) {
        update(step, summary);
      } else if (const auto code = refuse_nonfinite(step, summary)) {
        outcome = *code;
        break;
      }
      at_.step = step;
      report(step, summary, seconds_since(begin));
      const auto every = deck_.evaluation.every_steps;
      if (every > 0 && step % every == 0) evaluate(step);
      if (const auto code = at_border(summary)) {
        outcome = *code;
        break;
      }
      slowest_step_s_ = std::max(slowest_step_s_, seconds_since(begin));
    }
    if (outcome == ExitCode::done && deck_.checkpoint.every_steps > 0) {
      checkpoints_->save(at_, train_data_->fingerprint(), plan::to_json(plan_));
    }
  } catch (const Error& error) {
    // This rank cannot tell the others in an orderly way: it speaks for the run and ends it.
    const std::string line =
        fmt::format("{}, in {}: {}", self_, progress_.describe(), error.what());
    append_line(RunFolder::post_mortem(deck_.run.output_dir), line);
    watchdog_.reset();
    fmt::print(stderr, "error: {}\n", line);
    std::fflush(stderr);
    session_.abort(static_cast<int>(error.code()));
  }
  progress_.set(Phase::finishing);
  watchdog_.reset();  // from here on a peer that is gone has finished
  world_.barrier();
  const std::string weights = weights_fingerprint();
  if (step_log_) step_log_->write({{"exit_code", static_cast<int>(outcome)}, {"weights", weights}});
  if (outcome == ExitCode::done) {
    log_.info("done: {} steps, weights {}; {}", deck_.training.steps, weights,
              deck_.run.output_dir);
  }
  return outcome;
}

}  // namespace

ExitCode run_training(const deck::Deck& deck, const RunOptions& options, mpi::Session& session) {
  TrainingRun run(deck, options, session);
  return run.train();
}

}  // namespace adaptra::driver
