#include "checkpoint/file_index.hpp"

#include "core/error.hpp"
#include "core/text.hpp"
#include "h5/file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <functional>
#include <numeric>
#include <sstream>

namespace adaptra::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

constexpr std::uint64_t user_block_bytes = 4096;
constexpr std::array<char, 8> magic = {'A', 'D', 'A', 'P', 'T', 'C', 'K', '1'};

// The user block, little-endian; the rest of it is zero. `own_sum` is the CRC-32 of the 4096 bytes
// with this field zero.
struct UserBlock {
  std::array<char, 8> name{};
  std::uint32_t version = 1;
  std::uint32_t own_sum = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t table_offset = 0;
  std::uint64_t tensors = 0;
  std::uint32_t table_sum = 0;
  std::uint32_t structure_sum = 0;  ///< of all that is neither user block nor tensor
};
static_assert(sizeof(UserBlock) == 48);

using Row = std::array<std::uint64_t, 3>;  // of the table: offset, bytes, CRC-32

std::vector<std::byte> bytes_of(const UserBlock& block) {
  std::vector<std::byte> bytes(user_block_bytes);
  std::memcpy(bytes.data(), &block, sizeof block);
  return bytes;
}

std::uint32_t own_sum(UserBlock block) {
  block.own_sum = 0;
  return crc(0, bytes_of(block));
}

[[noreturn]] void bad(const std::filesystem::path& file, const std::string& what) {
  throw Error(ExitCode::file, fmt::format("{}: {}", file.string(), what));
}

// CRC-32 of everything behind the user block that is no tensor. `rows` sorted by offset, apart.
std::uint32_t structure_sum(const RawFile& file, std::vector<Row> rows, std::uint64_t file_bytes) {
  std::sort(rows.begin(), rows.end());
  std::uint64_t at = user_block_bytes;
  std::uint32_t sum = 0;
  for (const auto& row : rows) {
    sum = crc(sum, file, at, row[0] - at);
    at = row[0] + row[1];
  }
  return crc(sum, file, at, file_bytes - at);
}

bool inside(std::vector<Row> rows, std::uint64_t file_bytes) {
  std::sort(rows.begin(), rows.end());
  std::uint64_t at = user_block_bytes;
  for (const auto& row : rows) {
    if (row[0] < at || row[0] > file_bytes || row[1] > file_bytes - row[0]) return false;
    at = row[0] + row[1];
  }
  return true;
}

UserBlock read_user_block(const RawFile& raw, const std::filesystem::path& file) {
  const std::uint64_t size = raw.size();
  if (size == 0) bad(file, "is empty");
  if (size < user_block_bytes) bad(file, fmt::format("has only {} bytes: truncated", size));
  std::vector<std::byte> bytes(user_block_bytes);
  raw.read(bytes, 0);
  UserBlock block;
  std::memcpy(&block, bytes.data(), sizeof block);
  if (std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; })) {
    bad(file, "is incomplete: its writer was stopped before the end");
  }
  if (block.name != magic) bad(file, "is not an Adaptra checkpoint");
  const std::uint32_t sum = block.own_sum;
  block.own_sum = 0;
  std::memcpy(bytes.data(), &block, sizeof block);
  if (crc(0, bytes) != sum) bad(file, "its first 4096 bytes are damaged (checksum)");
  if (block.version != 1) {
    bad(file, fmt::format("has format version {}; this program reads version 1", block.version));
  }
  if (size != block.file_bytes) {
    bad(file, fmt::format("has {} bytes instead of {}: {}", size, block.file_bytes,
                          size < block.file_bytes ? "truncated" : "something was appended"));
  }
  return block;
}

std::vector<Row> read_table(const RawFile& raw, const UserBlock& block,
                            const std::filesystem::path& file) {
  if (block.tensors > block.file_bytes / sizeof(Row)) bad(file, "its table is damaged");
  std::vector<Row> rows(block.tensors);
  raw.read(std::as_writable_bytes(std::span(rows)), block.table_offset);
  if (crc(0, std::as_bytes(std::span(rows))) != block.table_sum) {
    bad(file, "its table of tensors is damaged (checksum)");
  }
  if (!inside(rows, block.file_bytes)) bad(file, "its table of tensors is not consistent");
  return rows;
}

RunState read_run_state(const h5::File& file) {
  RunState state;
  state.step = file.read_integer("/state/step");
  for (const auto& key : file.list("/state/integers")) {
    state.integers[key] = file.read_integer("/state/integers/" + key);
  }
  for (const auto& key : file.list("/state/numbers")) {
    state.numbers[key] = file.read_number("/state/numbers/" + key);
  }
  for (const auto& key : file.list("/state/texts")) {
    state.texts[key] = file.read_text("/state/texts/" + key);
  }
  return state;
}

void write_run_state(h5::File& file, const RunState& state) {
  file.write_integer("/state/step", state.step);
  file.make_group("/state/integers");
  file.make_group("/state/numbers");
  file.make_group("/state/texts");
  for (const auto& [key, value] : state.integers) {
    file.write_integer("/state/integers/" + key, value);
  }
  for (const auto& [key, value] : state.numbers) file.write_number("/state/numbers/" + key, value);
  for (const auto& [key, value] : state.texts) file.write_text("/state/texts/" + key, value);
}

}  // namespace

const TensorEntry* FileIndex::find(const std::string& group, const std::string& name) const {
  for (const auto& tensor : tensors) {
    if (tensor.group == group && tensor.name == name) return &tensor;
  }
  return nullptr;
}

FileIndex lay_out(const std::filesystem::path& path, std::vector<TensorEntry> tensors,
                  const RunState& state) {
  FileIndex index;
  index.state = state;
  auto file = h5::File::create(path, user_block_bytes);
  file.write_text("/format", "adaptra-checkpoint");
  file.write_integer("/version", 1);
  write_run_state(file, state);
  std::string names;
  for (const auto& tensor : tensors) names += tensor.full_name() + "\n";
  file.write_text("/tensors", names);
  const std::array<std::int64_t, 2> table = {static_cast<std::int64_t>(tensors.size()), 3};
  index.table_offset = file.reserve_words("/extents", table).offset;
  for (auto& tensor : tensors) {
    const auto place = file.reserve_floats("/" + tensor.full_name(), tensor.shape);
    tensor.offset = place.offset;
    tensor.bytes = place.bytes;
  }
  file.close();
  index.tensors = std::move(tensors);
  index.file_bytes = std::filesystem::file_size(path);
  return index;
}

void seal(const RawFile& file, const FileIndex& index) {
  std::vector<Row> rows;
  for (const auto& tensor : index.tensors) {
    rows.push_back({tensor.offset, tensor.bytes, tensor.sum});
  }
  file.write(std::as_bytes(std::span(rows)), index.table_offset);
  UserBlock block;
  block.name = magic;
  block.file_bytes = index.file_bytes;
  block.table_offset = index.table_offset;
  block.tensors = rows.size();
  block.table_sum = crc(0, std::as_bytes(std::span(rows)));
  block.structure_sum = structure_sum(file, rows, index.file_bytes);
  block.own_sum = own_sum(block);
  file.write(bytes_of(block), 0);
}

FileIndex read_index(const std::filesystem::path& path) {
  const RawFile raw(path, RawFile::Access::read);
  const auto block = read_user_block(raw, path);
  const auto rows = read_table(raw, block, path);
  if (structure_sum(raw, rows, block.file_bytes) != block.structure_sum) {
    bad(path, "its structure (names, shapes, state) is damaged (checksum)");
  }
  const auto file = h5::File::open(path);
  FileIndex index;
  index.file_bytes = block.file_bytes;
  index.table_offset = block.table_offset;
  index.state = read_run_state(file);
  std::istringstream names(file.read_text("/tensors"));
  std::string name;
  for (const auto& row : rows) {
    std::getline(names, name);
    const auto slash = name.find('/');
    const auto place = file.place("/" + name);
    if (slash == std::string::npos || place.offset != row[0] || place.bytes != row[1]) {
      bad(path, fmt::format("'{}' does not lie where the table says", name));
    }
    index.tensors.push_back({name.substr(0, slash), name.substr(slash + 1), place.shape, row[0],
                             row[1], static_cast<std::uint32_t>(row[2])});
  }
  return index;
}

void check_tensor(const RawFile& file, const std::filesystem::path& path,
                  const TensorEntry& tensor) {
  const auto sum = crc(0, file, tensor.offset, tensor.bytes);
  if (sum != tensor.sum) {
    bad(path,
        fmt::format("tensor {} is damaged (checksum {:08x} instead of {:08x}, bytes {} to {})",
                    tensor.full_name(), sum, tensor.sum, tensor.offset,
                    tensor.offset + tensor.bytes));
  }
}

std::string to_text(const FileIndex& index) {
  nlohmann::json json;
  json["step"] = index.state.step;
  json["integers"] = index.state.integers;
  json["texts"] = index.state.texts;
  // As bits: JSON has neither infinities nor a promise to keep the last digit.
  for (const auto& [key, value] : index.state.numbers) {
    json["numbers"][key] = std::bit_cast<std::uint64_t>(value);
  }
  json["file_bytes"] = index.file_bytes;
  json["table_offset"] = index.table_offset;
  auto& tensors = json["tensors"] = nlohmann::json::array();
  for (const auto& t : index.tensors) {
    tensors.push_back({t.group, t.name, t.shape, t.offset, t.bytes, t.sum});
  }
  const auto bytes = nlohmann::json::to_cbor(json);  // texts may be no UTF-8
  return {bytes.begin(), bytes.end()};
}

FileIndex from_text(const std::string& text) {
  const auto json = nlohmann::json::from_cbor(text.begin(), text.end());
  FileIndex index;
  index.state.step = json.at("step").get<std::int64_t>();
  index.state.integers = json.at("integers").get<std::map<std::string, std::int64_t>>();
  index.state.texts = json.at("texts").get<std::map<std::string, std::string>>();
  if (json.contains("numbers")) {
    for (const auto& [key, bits] : json["numbers"].items()) {
      index.state.numbers[key] = std::bit_cast<double>(bits.get<std::uint64_t>());
    }
  }
  index.file_bytes = json.at("file_bytes").get<std::uint64_t>();
  index.table_offset = json.at("table_offset").get<std::uint64_t>();
  for (const auto& t : json.at("tensors")) {
    index.tensors.push_back({t[0].get<std::string>(), t[1].get<std::string>(),
                             t[2].get<std::vector<std::int64_t>>(), t[3].get<std::uint64_t>(),
                             t[4].get<std::uint64_t>(), t[5].get<std::uint32_t>()});
  }
  return index;
}

}  // namespace adaptra::checkpoint
