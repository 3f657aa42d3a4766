#pragma once
// The folder of a run: made once by rank 0, never overwritten without being told to.

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>

namespace adaptra::driver {

/// What to do where the folder already holds a run.
enum class ExistingRun { refuse, overwrite, resume };

class RunFolder {
 public:
  /// Makes the folder. Throws Error{usage} where it holds a run and `existing` is refuse,
  /// Error{file} where it cannot be written. With overwrite, the files of the earlier run are
  /// removed (only those that a run writes). Call on rank 0.
  static void prepare(const std::filesystem::path& folder, ExistingRun existing);

  static std::filesystem::path used_config(const std::filesystem::path& folder);
  static std::filesystem::path step_log(const std::filesystem::path& folder);
  static std::filesystem::path post_mortem(const std::filesystem::path& folder);
  static std::filesystem::path control(const std::filesystem::path& folder);
  static std::filesystem::path checkpoints(const std::filesystem::path& folder);
};

/// Writes a text file by temporary name and rename, so that readers never see half of it.
void write_file(const std::filesystem::path& path, const std::string& text);

/// log.jsonl: one JSON object per line, appended and flushed.
class StepLog {
 public:
  /// Opens for appending. Throws Error{file}.
  explicit StepLog(const std::filesystem::path& path);
  void write(const nlohmann::ordered_json& line);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace adaptra::driver
