#pragma once
// The folder of checkpoints: names, the pointer `latest`, and which old files go. Local; rank 0.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace adaptra::checkpoint {

/// "step_00000100.h5".
std::string file_name(std::int64_t step);

/// The step of such a name; nothing for any other name.
std::optional<std::int64_t> step_of(const std::string& name);

struct FolderEntry {
  std::int64_t step = 0;
  std::filesystem::path file;
};

/// Files with such names, newest step first.
std::vector<FolderEntry> list_folder(const std::filesystem::path& folder);

/// Removes what interrupted saves left behind.
void remove_leftovers(const std::filesystem::path& folder);

/// Sets the pointer `latest`, a text file with a name, by rename.
void point_to(const std::filesystem::path& folder, const std::string& name);

struct Retention {
  int keep_last = 3;                  ///< newest files kept; at least 1
  std::int64_t keep_every_steps = 0;  ///< files of these steps are kept for ever; 0: none
};

/// Deletes what retention does not keep, once the file of `newest_step` is good. Files of later
/// steps belong to a history that was left by going back to an earlier step: they are set aside as
/// NAME.superseded. Gives one line for each file touched.
std::vector<std::string> tidy(const std::filesystem::path& folder, std::int64_t newest_step,
                              const Retention& retention);

}  // namespace adaptra::checkpoint
