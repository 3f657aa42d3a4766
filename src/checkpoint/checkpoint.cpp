#include "checkpoint/checkpoint.hpp"

#include "checkpoint/file_index.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/raw_file.hpp"
#include "core/error.hpp"
#include "mpi/agree.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace adaptra::checkpoint {
namespace {

std::string text_of(const std::vector<std::int64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ","));
}

// This rank's share of the tensors, the first bad one named; "" where all are good.
std::string check_share(const std::filesystem::path& path, const FileIndex& index, int rank,
                        int ranks) {
  try {
    const RawFile file(path, RawFile::Access::read);
    for (auto i = static_cast<std::size_t>(rank); i < index.tensors.size();
         i += static_cast<std::size_t>(ranks)) {
      check_tensor(file, path, index.tensors[i]);
    }
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

void read_part(const RawFile& file, const std::filesystem::path& path, const FileIndex& index,
               const TensorPart& part, std::vector<std::string>& absent_groups) {
  const auto* tensor = index.find(part.group, part.name);
  if (tensor == nullptr) {
    const bool has_group = std::any_of(index.tensors.begin(), index.tensors.end(),
                                       [&](const auto& t) { return t.group == part.group; });
    if (has_group) {
      throw Error(ExitCode::file,
                  fmt::format("{}: tensor {}/{} is missing: it is the checkpoint of another model",
                              path.string(), part.group, part.name));
    }
    if (std::find(absent_groups.begin(), absent_groups.end(), part.group) == absent_groups.end()) {
      absent_groups.push_back(part.group);
    }
    return;
  }
  if (tensor->shape != part.shape || tensor->bytes != part.data.size_bytes()) {
    throw Error(ExitCode::file,
                fmt::format("{}: tensor {} has shape {}, this model needs {}: the model of a "
                            "checkpoint cannot be changed",
                            path.string(), tensor->full_name(), text_of(tensor->shape),
                            text_of(part.shape)));
  }
  const auto bytes = std::as_writable_bytes(part.data);
  file.read(bytes, tensor->offset);
  if (crc(0, bytes) != tensor->sum) check_tensor(file, path, *tensor);
}

}  // namespace

Loaded load(const mpi::Communicator& comm, const std::filesystem::path& path,
            std::span<const TensorPart> parts) {
  // One rank opens the file with HDF5; the others read bytes at offsets.
  std::string text;
  mpi::agree(comm, [&] {
    if (comm.rank() == 0) text = to_text(read_index(path));
  });
  const auto index = from_text(comm.broadcast(text, 0));
  Loaded loaded;
  loaded.state = index.state;
  mpi::agree(comm, [&] {
    const RawFile file(path, RawFile::Access::read);
    for (const auto& part : parts) read_part(file, path, index, part, loaded.absent_groups);
  });
  return loaded;
}

RunState read_state(const std::filesystem::path& file) {
  return read_index(file).state;
}

Latest find_latest(const mpi::Communicator& comm, const std::filesystem::path& folder) {
  std::vector<FolderEntry> entries;
  mpi::agree(comm, [&] {
    if (comm.rank() == 0) entries = list_folder(folder);
  });
  const auto count = comm.maximum(static_cast<std::int64_t>(entries.size()));
  Latest latest;
  for (std::int64_t i = 0; i < count; ++i) {
    std::string name, text, problem;
    if (comm.rank() == 0) {
      const auto& entry = entries[static_cast<std::size_t>(i)];
      name = entry.file.filename().string();
      try {
        text = to_text(read_index(entry.file));
      } catch (const Error& error) {
        problem = error.what();
      }
    }
    name = comm.broadcast(name, 0);
    text = comm.broadcast(text, 0);
    if (!text.empty()) {
      problem = check_share(folder / name, from_text(text), comm.rank(), comm.size());
    }
    for (const auto& one : comm.gather_all(problem)) {
      if (!one.empty()) {
        problem = one;
        break;
      }
    }
    if (problem.empty()) {
      latest.file = folder / name;
      latest.step = *step_of(name);
      break;
    }
    latest.skipped.push_back(problem);
  }
  return latest;
}

std::vector<std::string> verify(const std::filesystem::path& path) {
  std::vector<std::string> problems;
  try {
    const auto index = read_index(path);
    const RawFile file(path, RawFile::Access::read);
    for (const auto& tensor : index.tensors) {
      try {
        check_tensor(file, path, tensor);
      } catch (const Error& error) {
        problems.emplace_back(error.what());
      }
    }
  } catch (const Error& error) {
    problems.emplace_back(error.what());
  }
  return problems;
}

}  // namespace adaptra::checkpoint
