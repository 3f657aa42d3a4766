#include "driver/run_folder.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <system_error>

namespace adaptra::driver {
namespace fs = std::filesystem;

void RunFolder::prepare(const fs::path& folder, ExistingRun existing) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) {
    throw Error(ExitCode::file, fmt::format("run.output_dir {}: cannot be made: {}",
                                            folder.string(), problem.message()));
  }
  const bool holds_run = fs::exists(used_config(folder)) || fs::exists(step_log(folder));
  if (holds_run && existing == ExistingRun::refuse) {
    throw Error(ExitCode::usage,
                fmt::format("{} already holds a run: go on with --resume, replace it with "
                            "--overwrite, or choose another run.output_dir",
                            folder.string()));
  }
  if (holds_run && existing == ExistingRun::overwrite) {
    for (const auto& path : {used_config(folder), step_log(folder), post_mortem(folder),
                             checkpoints(folder), control(folder)}) {
      fs::remove_all(path, problem);
    }
  }
}

fs::path RunFolder::used_config(const fs::path& folder) {
  return folder / "used_config.toml";
}
fs::path RunFolder::step_log(const fs::path& folder) {
  return folder / "log.jsonl";
}
fs::path RunFolder::post_mortem(const fs::path& folder) {
  return folder / "post_mortem.txt";
}
fs::path RunFolder::control(const fs::path& folder) {
  return folder / "control";
}
fs::path RunFolder::checkpoints(const fs::path& folder) {
  return folder / "checkpoints";
}

void write_file(const fs::path& path, const std::string& text) {
  const fs::path temporary = path.string() + ".tmp";
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  std::error_code problem;
  if (file) fs::rename(temporary, path, problem);
  if (!file || problem) {
    throw Error(ExitCode::file,
                fmt::format("{}: cannot be written: {}", path.string(),
                            problem ? problem.message() : "the disk is full or not writable"));
  }
}

StepLog::StepLog(const fs::path& path) : path_(path), file_(path, std::ios::app) {
  if (!file_) throw Error(ExitCode::file, path.string() + ": cannot be opened for writing");
}

void StepLog::write(const nlohmann::ordered_json& line) {
  file_ << line.dump() << '\n';
  file_.flush();
  if (!file_) {
    throw Error(ExitCode::file,
                path_.string() + ": cannot be written: the disk is full or not writable");
  }
}

}  // namespace adaptra::driver
