#include "checkpoint/writer.hpp"

#include "checkpoint/file_index.hpp"
#include "checkpoint/raw_file.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "h5/file.hpp"
#include "mpi/agree.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>
#include <utility>

namespace adaptra::checkpoint {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t write_piece_bytes = std::size_t{16} << 20;
constexpr std::size_t hdf5_piece_bytes = std::size_t{256} << 20;  // far from 2 GiB per call

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A tensor that this rank writes.
struct Piece {
  std::size_t entry = 0;  // in the index
  std::span<const float> data;
};

// Runs something in a thread that takes no signals: those are for the main thread.
std::thread quiet_thread(std::function<void()> work) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(work));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

// Watches over a call that cannot be interrupted.
class Watch {
 public:
  Watch(double limit_s, const std::function<void(const std::string&)>& on_stuck, std::string line)
      : thread_(quiet_thread([this, limit_s, on_stuck, line = std::move(line)] {
          std::unique_lock lock(mutex_);
          const auto limit = std::chrono::duration<double>(limit_s);
          if (ended_.wait_for(lock, limit, [this] { return over_; })) return;
          if (on_stuck) return on_stuck(line);
          std::fprintf(stderr, "error: %s\n", line.c_str());
          std::_Exit(static_cast<int>(ExitCode::peer_lost));
        })) {}
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

struct Holding {
  TensorEntry entry;
  std::vector<int> ranks;
};

std::string describe(std::span<const TensorPart> parts) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& part : parts) {
    const auto elements =
        std::accumulate(part.shape.begin(), part.shape.end(), std::int64_t{1}, std::multiplies<>());
    if (elements < 1 || static_cast<std::size_t>(elements) != part.data.size()) {
      throw Error(ExitCode::internal,
                  fmt::format("checkpoint: {}/{} has {} values for {} elements", part.group,
                              part.name, part.data.size(), elements));
    }
    list.push_back({part.group, part.name, part.shape});
  }
  return list.dump();
}

// Every tensor of all ranks, in the order in which ranks first name it, and who holds it.
std::vector<Holding> merge(const std::vector<std::string>& descriptions) {
  std::vector<Holding> all;
  std::map<std::string, std::size_t> known;
  for (std::size_t rank = 0; rank < descriptions.size(); ++rank) {
    for (const auto& item : nlohmann::json::parse(descriptions[rank])) {
      TensorEntry entry;
      entry.group = item[0].get<std::string>();
      entry.name = item[1].get<std::string>();
      entry.shape = item[2].get<std::vector<std::int64_t>>();
      const auto [place, added] = known.emplace(entry.full_name(), all.size());
      if (added) all.push_back({std::move(entry), {}});
      auto& holding = all[place->second];
      if (!added && holding.entry.shape != item[2].get<std::vector<std::int64_t>>()) {
        throw Error(ExitCode::internal,
                    fmt::format("checkpoint: ranks {} and {} disagree on the shape of {}",
                                holding.ranks.front(), rank, holding.entry.full_name()));
      }
      holding.ranks.push_back(static_cast<int>(rank));
    }
  }
  return all;
}

// Who writes what: of the ranks that hold a tensor the one with the least to write so far.
std::vector<int> share_out(const std::vector<Holding>& all, int ranks) {
  std::vector<std::int64_t> load(static_cast<std::size_t>(ranks), 0);
  std::vector<int> writers;
  for (const auto& holding : all) {
    const int writer =
        *std::min_element(holding.ranks.begin(), holding.ranks.end(), [&](int a, int b) {
          return load[static_cast<std::size_t>(a)] < load[static_cast<std::size_t>(b)];
        });
    load[static_cast<std::size_t>(writer)] +=
        std::accumulate(holding.entry.shape.begin(), holding.entry.shape.end(), std::int64_t{4},
                        std::multiplies<>());
    writers.push_back(writer);
  }
  return writers;
}

void check_space(const fs::path& folder, const std::vector<Holding>& all) {
  std::uint64_t bytes = std::uint64_t{1} << 20;  // names, state, pages between the tensors
  for (const auto& holding : all) {
    bytes += 8192 + static_cast<std::uint64_t>(
                        std::accumulate(holding.entry.shape.begin(), holding.entry.shape.end(),
                                        std::int64_t{4}, std::multiplies<>()));
  }
  const auto free = free_bytes(folder);
  if (free < bytes) {
    throw Error(
        ExitCode::file,
        fmt::format("{}: {} are free, a checkpoint needs {}: nothing was written; free some "
                    "space or keep fewer checkpoints",
                    folder.string(), format_bytes(free), format_bytes(bytes)));
  }
}

}  // namespace

struct Writer::Save {
  std::int64_t step = 0;
  fs::path temporary, final_path;
  FileIndex index;
  std::vector<Piece> pieces;           // what this rank writes
  std::vector<std::uint32_t> sums;     // of them
  double waited_s = 0, written_s = 0;  // this rank's
  std::atomic<bool> done{false}, cancel{false};
  Status outcome;  // valid once done
  std::thread thread;

  ~Save() {
    cancel = true;
    if (thread.joinable()) thread.join();
  }

  // The thread's work, or the main thread's with Timing::blocking.
  void write(ReadBack read_back) noexcept {
    try {
      const auto begin = Clock::now();
      RawFile file(temporary, RawFile::Access::write);
      for (const auto& piece : pieces) write_piece(file, piece);
      file.sync();
      written_s = seconds_since(begin);
      if (read_back == ReadBack::yes) check_written(file);
      file.close();
    } catch (const Error& error) {
      outcome = error;
    } catch (const std::exception& error) {
      outcome = Error(ExitCode::internal, error.what());
    }
    done = true;
  }

  void write_piece(const RawFile& file, const Piece& piece) {
    auto bytes = std::as_bytes(piece.data);
    std::uint64_t offset = index.tensors[piece.entry].offset;
    std::uint32_t sum = 0;
    while (!bytes.empty()) {
      if (cancel) throw Error(ExitCode::file, "the save was given up");
      const auto part = bytes.first(std::min(bytes.size(), write_piece_bytes));
      sum = crc(sum, part);
      file.write(part, offset);
      offset += part.size();
      bytes = bytes.subspan(part.size());
    }
    sums.push_back(sum);
  }

  void check_written(const RawFile& file) {
    file.forget_cache();
    for (std::size_t i = 0; i < pieces.size() && !cancel; ++i) {
      auto entry = index.tensors[pieces[i].entry];
      entry.sum = sums[i];
      check_tensor(file, temporary, entry);
    }
  }
};

Writer::Writer(const mpi::Communicator& comm, fs::path folder, Settings settings)
    : comm_(comm), folder_(std::move(folder)), settings_(std::move(settings)) {}

Writer::~Writer() = default;

void Writer::start(std::int64_t step, std::span<const TensorPart> parts, const RunState& state) {
  if (running()) finish();
  const auto begin = Clock::now();
  save_ = std::make_unique<Save>();
  save_->step = step;
  save_->final_path = folder_ / file_name(step);
  save_->temporary = save_->final_path.string() + ".tmp";
  std::vector<Holding> all;
  try {
    std::string mine;
    mpi::agree(comm_, [&] { mine = describe(parts); });
    const auto descriptions = comm_.gather_all(mine);
    std::string layout;
    mpi::agree(comm_, [&] {
      all = merge(descriptions);
      if (comm_.rank() != 0) return;
      std::error_code problem;
      fs::create_directories(folder_, problem);
      if (problem) {
        throw Error(ExitCode::file,
                    fmt::format("{}: cannot be made: {}", folder_.string(), problem.message()));
      }
      remove_leftovers(folder_);
      check_space(folder_, all);
      std::vector<TensorEntry> entries;
      for (const auto& holding : all) entries.push_back(holding.entry);
      auto whole = state;
      whole.step = step;
      auto index = lay_out(save_->temporary, std::move(entries), whole);
      RawFile(save_->temporary, RawFile::Access::write).reserve(index.file_bytes);
      layout = to_text(index);
    });
    save_->index = from_text(comm_.broadcast(layout, 0));
  } catch (const Error&) {
    give_up();
  }

  const auto writers = share_out(all, comm_.size());
  std::map<std::string, std::span<const float>> held;
  for (const auto& part : parts) held[part.group + "/" + part.name] = part.data;
  std::size_t elements = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (writers[i] != comm_.rank()) continue;
    save_->pieces.push_back({i, held.at(all[i].entry.full_name())});
    elements += save_->pieces.back().data.size();
  }

  if (settings_.method != Method::posix) {
    write_by_hdf5();
  } else if (settings_.timing == Timing::blocking) {
    save_->write(settings_.read_back);
  } else {
    copy_.resize(elements);
    std::size_t at = 0;
    for (auto& piece : save_->pieces) {
      std::memcpy(copy_.data() + at, piece.data.data(), piece.data.size_bytes());
      piece.data = std::span(copy_).subspan(at, piece.data.size());
      at += piece.data.size();
    }
    save_->thread = quiet_thread(
        [save = save_.get(), read_back = settings_.read_back] { save->write(read_back); });
  }
  save_->waited_s = seconds_since(begin);
}

void Writer::write_by_hdf5() {
  const bool together = settings_.method == Method::hdf5_collective;
  const auto transfer = together ? h5::Transfer::collective : h5::Transfer::independent;
  const Watch watch(settings_.deadline_s, settings_.on_stuck,
                    fmt::format("rank {}: writing {} through parallel HDF5 took more than {} s; "
                                "a rank or the file system hangs (checkpoint method \"posix\" "
                                "avoids parallel HDF5)",
                                comm_.rank(), save_->temporary.string(), settings_.deadline_s));
  const auto begin = Clock::now();
  // Nothing may throw on one rank alone between the collective calls: a failed write is kept until
  // all are done.
  Status outcome;
  auto file = h5::File::open_parallel(save_->temporary, comm_.handle());
  std::size_t next = 0;
  for (std::size_t i = 0; i < save_->index.tensors.size(); ++i) {
    const auto& tensor = save_->index.tensors[i];
    const bool mine = next < save_->pieces.size() && save_->pieces[next].entry == i;
    if (!mine && !together) continue;
    const auto data = mine ? save_->pieces[next].data : std::span<const float>();
    const std::int64_t rows = tensor.shape.front();
    const auto row = static_cast<std::size_t>(tensor.bytes / 4) / static_cast<std::size_t>(rows);
    const auto step = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(hdf5_piece_bytes / (row * sizeof(float))));
    for (std::int64_t r = 0; r < rows; r += step) {
      const auto count = std::min(step, rows - r);
      const auto part = mine ? data.subspan(static_cast<std::size_t>(r) * row,
                                            static_cast<std::size_t>(count) * row)
                             : data;
      try {
        file.write_rows("/" + tensor.full_name(), r, mine ? count : 0, part, transfer);
      } catch (const Error& error) {
        if (outcome.ok()) outcome = error;
      }
    }
    if (mine) {
      save_->sums.push_back(crc(0, std::as_bytes(data)));
      ++next;
    }
  }
  file.close();
  save_->written_s = seconds_since(begin);
  try {
    RawFile raw(save_->temporary, RawFile::Access::write);
    raw.sync();
    save_->written_s = seconds_since(begin);
    if (outcome.ok() && settings_.read_back == ReadBack::yes) save_->check_written(raw);
  } catch (const Error& error) {
    if (outcome.ok()) outcome = error;
  }
  save_->outcome = outcome;
  save_->done = true;
}

std::optional<Report> Writer::poll() {
  if (!running()) return std::nullopt;
  if (comm_.maximum(save_->done ? 0 : 1) != 0) return std::nullopt;
  return complete();
}

std::optional<Report> Writer::finish() {
  if (!running()) return std::nullopt;
  const auto deadline = mpi::Deadline::after_s(settings_.deadline_s);
  const auto begin = Clock::now();
  while (true) {
    // The clocks of the ranks pass the deadline at different times: that is agreed too.
    const std::int64_t mine = save_->done ? 0 : deadline.passed() ? 2 + comm_.rank() : 1;
    const auto slowest = comm_.maximum(mine);
    if (slowest == 0) break;
    if (slowest >= 2) {
      try {
        throw Error(ExitCode::peer_lost,
                    fmt::format("{}: rank {} has not written its part within {} s",
                                save_->temporary.string(), slowest - 2, settings_.deadline_s));
      } catch (const Error&) {
        give_up();
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  save_->waited_s += seconds_since(begin);
  return complete();
}

// Every rank's thread is done.
Report Writer::complete() {
  const auto begin = Clock::now();
  Report report;
  try {
    if (save_->thread.joinable()) save_->thread.join();
    mpi::agree(comm_, [&] { save_->outcome.throw_if_error(); });
    std::vector<double> mine = {save_->written_s};
    for (std::size_t i = 0; i < save_->sums.size(); ++i) {
      mine.push_back(static_cast<double>(save_->pieces[i].entry));
      mine.push_back(static_cast<double>(save_->sums[i]));
    }
    for (const auto& part : comm_.gather_all(std::span<const double>(mine))) {
      report.written_s = std::max(report.written_s, part[0]);
      for (std::size_t i = 1; i + 1 < part.size(); i += 2) {
        save_->index.tensors[static_cast<std::size_t>(part[i])].sum =
            static_cast<std::uint32_t>(part[i + 1]);
      }
    }
    mpi::agree(comm_, [&] {
      if (comm_.rank() != 0) return;
      RawFile file(save_->temporary, RawFile::Access::write);
      seal(file, save_->index);
      file.sync();
      file.close();
      (void)read_index(save_->temporary);  // as a reader would, before it gets its name
      rename_for_good(save_->temporary, save_->final_path);
      point_to(folder_, save_->final_path.filename().string());
      report.tidied = tidy(folder_, save_->step, settings_.retention);
    });
  } catch (const Error&) {
    give_up();
  }
  report.file = save_->final_path;
  report.step = save_->step;
  report.bytes = save_->index.file_bytes;
  report.waited_s = save_->waited_s + seconds_since(begin);
  save_.reset();
  return report;
}

// Ends a save that failed and throws the error that is being handled.
void Writer::give_up() {
  const fs::path temporary = save_->temporary;
  save_.reset();
  std::error_code ignored;
  if (comm_.rank() == 0) fs::remove(temporary, ignored);
  throw;
}

Report save(const mpi::Communicator& comm, const fs::path& folder, std::int64_t step,
            std::span<const TensorPart> parts, const RunState& state, const Settings& settings) {
  auto blocking = settings;
  blocking.timing = Timing::blocking;
  Writer writer(comm, folder, blocking);
  writer.start(step, parts, state);
  return *writer.finish();
}

}  // namespace adaptra::checkpoint
