#include "checkpoint/folder.hpp"

#include "checkpoint/raw_file.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <span>
#include <system_error>

namespace adaptra::checkpoint {
namespace fs = std::filesystem;

std::string file_name(std::int64_t step) {
  return fmt::format("step_{:08}.h5", step);
}

std::optional<std::int64_t> step_of(const std::string& name) {
  constexpr std::string_view before = "step_", after = ".h5";
  if (!name.starts_with(before) || !name.ends_with(after)) return std::nullopt;
  std::int64_t step = -1;
  const char* end = name.data() + name.size() - after.size();
  const auto parsed = std::from_chars(name.data() + before.size(), end, step);
  if (parsed.ec != std::errc() || parsed.ptr != end || step < 0 || file_name(step) != name)
    return std::nullopt;
  return step;
}

std::vector<FolderEntry> list_folder(const fs::path& folder) {
  std::vector<FolderEntry> entries;
  std::error_code problem;
  for (fs::directory_iterator it(folder, problem), end; !problem && it != end;
       it.increment(problem)) {
    if (const auto step = step_of(it->path().filename().string())) {
      entries.push_back({*step, it->path()});
    }
  }
  if (problem && problem != std::errc::no_such_file_or_directory) {
    throw Error(ExitCode::file,
                fmt::format("{}: cannot be listed: {}", folder.string(), problem.message()));
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.step > b.step; });
  return entries;
}

void remove_leftovers(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator it(folder, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    const auto name = it->path().filename().string();
    const bool ours = name == "latest.tmp" ||
                      (name.ends_with(".tmp") && step_of(name.substr(0, name.size() - 4)));
    if (ours) leftovers.push_back(it->path());
  }
  for (const auto& path : leftovers) fs::remove(path, ignored);
}

void point_to(const fs::path& folder, const std::string& name) {
  const fs::path temporary = folder / "latest.tmp";
  if (!std::ofstream(temporary)) {
    throw Error(ExitCode::file, temporary.string() + ": cannot be written");
  }
  const std::string line = name + "\n";
  RawFile file(temporary, RawFile::Access::write);
  file.write(std::as_bytes(std::span(line)), 0);
  file.sync();
  file.close();
  rename_for_good(temporary, folder / "latest");
}

std::vector<std::string> tidy(const fs::path& folder, std::int64_t newest_step,
                              const Retention& retention) {
  std::vector<std::string> done;
  int newer = 0;  // files from newest_step backwards
  for (const auto& entry : list_folder(folder)) {
    std::error_code problem;
    const auto name = entry.file.filename().string();
    if (entry.step > newest_step) {
      fs::rename(entry.file, entry.file.string() + ".superseded", problem);
      done.push_back(name + " set aside: the run went back to an earlier step");
    } else if (++newer > std::max(1, retention.keep_last) &&
               (retention.keep_every_steps <= 0 || entry.step % retention.keep_every_steps != 0)) {
      fs::remove(entry.file, problem);
      done.push_back(name + " deleted");
    }
    if (problem) done.back() = name + ": cannot be moved or deleted: " + problem.message();
  }
  return done;
}

}  // namespace adaptra::checkpoint
