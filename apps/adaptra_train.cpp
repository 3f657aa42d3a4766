// adaptra-train DECK.toml [section.key=value ...]: trains a GPT-2 model; see --help.

#include "core/build_info.hpp"
#include "core/error.hpp"
#include "deck/keys.hpp"
#include "deck/read.hpp"
#include "driver/setup.hpp"
#include "driver/signals.hpp"
#include "driver/training_run.hpp"
#include "mpi/agree.hpp"
#include "mpi/session.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace {

using adaptra::Error;
using adaptra::ExitCode;

struct Arguments {
  std::string deck;
  std::vector<std::string> overrides;
  std::string output_dir, resume, max_time;
  bool overwrite = false, dry_run = false, print_config = false, single = false;
  bool deck_reference = false;
};

constexpr const char* footer = R"(
Examples:
  mpirun -n 4 adaptra-train inputs/quickstart.toml
  mpirun -n 4 adaptra-train inputs/quickstart.toml training.steps=50 --output-dir runs/short
  adaptra-train inputs/gpt2-124m.toml --dry-run

Exit codes: 0 done, 2 usage or deck, 3 launch or environment, 4 peer or link lost, 5 numerics,
6 data file or checkpoint, 7 impossible plan, 10 stopped early with a
checkpoint, 11 stopped by request, 70 internal error.)";

// Rank that a launcher gave this process, before MPI is there to be asked.
bool launched_as_first() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* text = std::getenv(name)) return std::atoi(text) == 0;
  }
  return true;
}

std::vector<std::string> all_overrides(const Arguments& arguments) {
  auto overrides = arguments.overrides;
  if (!arguments.output_dir.empty()) overrides.push_back("run.output_dir=" + arguments.output_dir);
  return overrides;
}

// "HH:MM:SS" as seconds, 0 for none. Throws Error{usage}.
double seconds_of(const std::string& text) {
  if (text.empty()) return 0;
  int hours = 0, minutes = 0, seconds = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%d:%d:%d%c", &hours, &minutes, &seconds, &rest) != 3 ||
      hours < 0 || minutes < 0 || minutes > 59 || seconds < 0 || seconds > 59 ||
      hours + minutes + seconds == 0) {
    throw Error(ExitCode::usage,
                fmt::format("--max-time {}: not a time as HH:MM:SS, e.g. 01:30:00", text));
  }
  return 3600.0 * hours + 60.0 * minutes + seconds;
}

// What needs no ranks: printed once, by the first process.
ExitCode show(const Arguments& arguments) {
  if (!launched_as_first()) return ExitCode::done;
  if (arguments.deck_reference) {
    fmt::print("{}", adaptra::deck::reference_page());
    return ExitCode::done;
  }
  const auto deck = adaptra::deck::read_deck(arguments.deck, all_overrides(arguments));
  if (arguments.print_config) {
    fmt::print("{}", adaptra::deck::write_deck(deck));
  } else {
    fmt::print("{}\n", adaptra::driver::dry_run_report(deck));
  }
  return ExitCode::done;
}

ExitCode train(const Arguments& arguments, adaptra::mpi::Session& session) {
  adaptra::deck::Deck deck;
  {
    if (const auto problem = adaptra::mpi::lonely_rank_problem(session.size());
        !problem.empty() && !arguments.single) {
      throw Error(ExitCode::environment, problem);
    }
    const auto world = adaptra::mpi::Communicator::world(60);
    adaptra::mpi::agree(
        world, [&] { deck = adaptra::deck::read_deck(arguments.deck, all_overrides(arguments)); });
  }
  adaptra::driver::RunOptions options;
  if (arguments.overwrite) options.existing = adaptra::driver::ExistingRun::overwrite;
  if (!arguments.resume.empty()) options.existing = adaptra::driver::ExistingRun::resume;
  options.resume = arguments.resume;
  options.max_time_s = seconds_of(arguments.max_time);
  return adaptra::driver::run_training(deck, options, session);
}

int finish(const std::string& message, ExitCode code) {
  fmt::print(stderr, "error: {}\n", message);
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Trains GPT-2 across pipeline stages, one MPI rank each.", "adaptra-train"};
  app.footer(footer);
  app.set_version_flag("--version", adaptra::build_line());
  auto* deck = app.add_option("deck", arguments.deck, "Input deck (TOML); docs/deck_reference.md");
  app.add_option("overrides", arguments.overrides, "section.key=value, wins over the deck");
  app.add_option("--output-dir", arguments.output_dir, "The same as run.output_dir=...");
  app.add_flag("--overwrite", arguments.overwrite, "Replace a run that is already in the folder");
  auto* resume = app.add_option("--resume", arguments.resume,
                                "Go on from a checkpoint: =auto (the newest good one) or =PATH");
  resume->expected(0, 1)->default_str("auto");
  app.add_option("--max-time", arguments.max_time,
                 "HH:MM:SS: stop with a checkpoint before so much time has passed; exit code 10");
  app.add_flag("--dry-run", arguments.dry_run, "Show split, memory and plan; train nothing");
  app.add_flag("--print-config", arguments.print_config,
               "Show the deck with every key; train nothing");
  app.add_flag("--single", arguments.single, "Run one process although a launcher started several");
  app.add_flag("--deck-reference", arguments.deck_reference, "Show the page of all keys");
  try {
    app.parse(argc, argv);
    if (resume->count() > 0 && arguments.resume.empty()) arguments.resume = "auto";
    if (arguments.overwrite && resume->count() > 0) {
      throw CLI::ValidationError("--overwrite", "excludes --resume");
    }
    if (arguments.deck.empty() && !arguments.deck_reference)
      throw CLI::RequiredError(deck->get_name());
  } catch (const CLI::ParseError& error) {
    if (!launched_as_first())
      return error.get_exit_code() == 0 ? 0 : static_cast<int>(ExitCode::usage);
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::usage);
  }

  try {
    if (arguments.dry_run || arguments.print_config || arguments.deck_reference) {
      return static_cast<int>(show(arguments));
    }
    adaptra::driver::install_signal_handlers();
    adaptra::mpi::Session session(&argc, &argv);
    try {
      return static_cast<int>(train(arguments, session));
    } catch (const adaptra::mpi::ElsewhereError& error) {
      return static_cast<int>(error.code());  // the culprit has spoken
    } catch (const Error& error) {
      if (session.rank() == 0 || error.code() != ExitCode::usage) {
        return finish(error.what(), error.code());
      }
      return static_cast<int>(error.code());
    }
  } catch (const Error& error) {
    return finish(error.what(), error.code());
  } catch (const std::exception& error) {
    return finish(std::string(error.what()) + " (a bug in Adaptra, please report)",
                  ExitCode::internal);
  }
}
