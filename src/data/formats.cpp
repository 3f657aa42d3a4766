#include "data/formats.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>

namespace adaptra::data {
namespace fs = std::filesystem;

namespace {

template <typename T>
T load(std::span<const std::byte> bytes, std::int64_t offset) {  // at any address
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::int64_t size_of(const MappedFile& file) {
  return static_cast<std::int64_t>(file.bytes().size());
}

std::int32_t first_word(const MappedFile& file) {
  return size_of(file) < 4 ? 0 : load<std::int32_t>(file.bytes(), 0);
}

template <typename... Args>
[[noreturn]] void refuse(const MappedFile& file, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ExitCode::file, file.path() + ": " + fmt::format(text, std::forward<Args>(args)...));
}

bool looks_binary(std::span<const std::byte> bytes) {
  const auto probe = bytes.first(std::min<std::size_t>(bytes.size(), 4096));
  return std::find(probe.begin(), probe.end(), std::byte{0}) != probe.end();
}

fs::path with_suffix(const std::string& path, const char* suffix) {
  return fs::path(path).replace_extension(suffix);
}

}  // namespace

const char* llmc::name_of(std::int32_t word) {
  switch (word) {
    case 20240520:
      return "an llm.c token shard";
    case 20240801:
      return "an llm.c shard of Llama-3 tokens";
    case 20240522:
      return "an llm.c evaluation file";
    case 20240326:
      return "an llm.c model";
    case 20240327:
      return "an llm.c debug state";
    case 20240527:
      return "an llm.c optimizer state";
    case 20240328:
      return "an llm.c tokenizer";
    default:
      return nullptr;
  }
}

std::vector<MappedFile> text_files(const std::vector<std::string>& paths) {
  std::vector<MappedFile> files;
  for (const auto& path : expand_paths(paths)) {
    MappedFile file(path);
    if (!file.bytes().empty() && !looks_binary(file.bytes())) files.push_back(std::move(file));
  }
  if (files.empty()) {
    throw Error(ExitCode::file, fmt::format("{}: no text in there (only empty or binary files)",
                                            fmt::join(paths, ", ")));
  }
  return files;
}

std::vector<std::string> binary_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const auto& path : paths) {
    const bool folder = fs::is_directory(path);
    const auto before = files.size();
    for (const auto& file : expand_paths({path})) {
      if (!folder || fs::path(file).extension() == ".bin") files.push_back(file);
    }
    if (files.size() == before)
      throw Error(ExitCode::file, path + ": no file in there ends in .bin");
  }
  return files;
}

std::vector<std::string> megatron_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const auto& path : paths) {
    const bool prefix = !fs::exists(path) && fs::exists(path + ".idx");
    const bool folder = fs::is_directory(path);
    for (const auto& file : expand_paths({prefix ? path + ".idx" : path})) {
      const auto suffix = fs::path(file).extension();
      if (suffix == ".bin" || suffix == ".idx") {
        files.push_back(with_suffix(file, ".idx").string());
      } else if (!folder) {
        throw Error(ExitCode::file, file +
                                        ": a Megatron dataset is named by its prefix, or by "
                                        "its .idx or .bin file");
      }
    }
  }
  // A folder or glob names both files of a pair; the order of first mention stays.
  std::vector<std::string> once;
  for (auto& file : files) {
    if (std::find(once.begin(), once.end(), file) == once.end()) once.push_back(std::move(file));
  }
  if (once.empty()) {
    throw Error(ExitCode::file,
                fmt::format("{}: no file in there ends in .idx or .bin", fmt::join(paths, ", ")));
  }
  return once;
}

Segment read_text(const MappedFile& file, std::size_t number) {
  return {number, 0, size_of(file), Stored::u8};
}

Segment read_nanogpt(const MappedFile& file, std::size_t number) {
  if (file.bytes().empty()) refuse(file, "is empty");
  // Without this check files of the other formats would train on garbage.
  if (const char* what = llmc::name_of(first_word(file))) {
    refuse(file, "is {} (magic {} at byte 0), not headerless nanoGPT tokens", what,
           first_word(file));
  }
  if (const auto index = with_suffix(file.path(), ".idx"); fs::exists(index)) {
    refuse(file, "{} beside it says that this is a Megatron dataset, not headerless nanoGPT tokens",
           index.string());
  }
  if (size_of(file) % 2 != 0) {
    refuse(file, "{} bytes is no whole number of 16-bit tokens: truncated, or not nanoGPT's format",
           size_of(file));
  }
  return {number, 0, size_of(file) / 2, Stored::u16};
}

Segment read_llmc(const MappedFile& file, std::size_t number) {
  if (file.bytes().empty()) refuse(file, "is empty");
  const std::int32_t word = first_word(file);
  if (word != llmc::magic) {
    if (const char* what = llmc::name_of(word)) {
      refuse(file, "is {} (magic {} at byte 0), not a shard of 16-bit tokens (magic {})", what,
             word, llmc::magic);
    }
    refuse(file,
           "no llm.c token shard: the 32-bit word at byte 0 is {}, not the magic {}; headerless "
           "tokens are data.kind = \"nanogpt\"",
           word, llmc::magic);
  }
  if (size_of(file) < llmc::header_bytes) {
    refuse(file, "{} bytes, shorter than the header of {}: truncated", size_of(file),
           llmc::header_bytes);
  }
  const auto version = load<std::int32_t>(file.bytes(), 4);
  if (version != llmc::version) {
    refuse(file, "version {} at byte 4; this release reads version {}", version, llmc::version);
  }
  const std::int64_t tokens = load<std::int32_t>(file.bytes(), 8);
  const std::int64_t expected = llmc::header_bytes + 2 * tokens;
  if (tokens < 1) refuse(file, "{} tokens, says the header at byte 8: nothing to train on", tokens);
  if (size_of(file) != expected) {
    refuse(file, "{} bytes, but the {} tokens that the header names at byte 8 make {}: {}",
           size_of(file), tokens, expected, size_of(file) < expected ? "truncated" : "damaged");
  }
  return {number, llmc::header_bytes, tokens, Stored::u16};
}

namespace {

constexpr char megatron_magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', '\0', '\0'};
constexpr std::int64_t megatron_header_bytes = 34;

bool has_megatron_magic(const MappedFile& file) {
  return size_of(file) >= 9 &&
         std::memcmp(file.bytes().data(), megatron_magic, sizeof megatron_magic) == 0;
}

Stored megatron_stored(const MappedFile& index) {
  const auto code = load<std::uint8_t>(index.bytes(), 17);
  switch (code) {
    case 1:
      return Stored::u8;
    case 2:
      return Stored::i8;
    case 3:
      return Stored::i16;
    case 4:
      return Stored::i32;
    case 5:
      return Stored::i64;
    case 8:
      return Stored::u16;
    case 6:
    case 7:
      refuse(index, "type {} at byte 17 is a floating-point type: these are no tokens", code);
    default:
      refuse(index, "unknown type {} at byte 17 (1 to 8 are known)", code);
  }
}

struct MegatronCounts {
  std::int64_t sequences, documents;
};

// Magic, version, and the size equation 34 + 12 S + 8 D.
MegatronCounts megatron_counts(const MappedFile& index) {
  if (!has_megatron_magic(index)) refuse(index, "no Megatron index: MMIDIDX is missing at byte 0");
  if (size_of(index) < megatron_header_bytes) {
    refuse(index, "{} bytes, shorter than the header of {}: truncated", size_of(index),
           megatron_header_bytes);
  }
  const auto version = load<std::uint64_t>(index.bytes(), 9);
  if (version != 1) {
    refuse(index, "version {} at byte 9; this release reads version 1", version);
  }
  const auto sequences = load<std::uint64_t>(index.bytes(), 18);
  const auto documents = load<std::uint64_t>(index.bytes(), 26);
  const auto most = index.bytes().size();  // keeps the sum below from overflowing
  if (sequences > most / 12 || documents > most / 8 ||
      megatron_header_bytes + 12 * sequences + 8 * documents != most) {
    refuse(index,
           "{} bytes do not fit the {} sequences (byte 18) and {} document borders (byte 26) that "
           "it names (34 + 12 S + 8 D): truncated or damaged",
           most, sequences, documents);
  }
  if (sequences == 0) refuse(index, "names no sequence: nothing to train on");
  return {static_cast<std::int64_t>(sequences), static_cast<std::int64_t>(documents)};
}

void check_documents(const MappedFile& index, const MegatronCounts& counts) {
  const std::int64_t begin = megatron_header_bytes + 12 * counts.sequences;
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < counts.documents; ++i) {
    const auto border = load<std::int64_t>(index.bytes(), begin + 8 * i);
    const bool ends = i + 1 == counts.documents;
    if ((i == 0 && border != 0) || border < last || border > counts.sequences ||
        (ends && border != counts.sequences)) {
      refuse(index, "document border {} at byte {} is out of order: damaged", border,
             begin + 8 * i);
    }
    last = border;
  }
  if (counts.documents == 0) refuse(index, "names no document border: damaged");
}

}  // namespace

std::vector<Segment> read_megatron(const MappedFile& index, const MappedFile& tokens,
                                   std::size_t number) {
  const MegatronCounts counts = megatron_counts(index);
  const Stored stored = megatron_stored(index);
  check_documents(index, counts);
  const std::int64_t width = width_bytes(stored), bytes = size_of(tokens);
  const std::int64_t offsets = megatron_header_bytes + 4 * counts.sequences;
  std::vector<Segment> segments;
  std::int64_t covered = 0;
  for (std::int64_t i = 0; i < counts.sequences; ++i) {
    const auto length = load<std::int32_t>(index.bytes(), megatron_header_bytes + 4 * i);
    const auto offset = load<std::int64_t>(index.bytes(), offsets + 8 * i);
    if (length < 0) {
      refuse(index, "sequence {} has length {} at byte {}: damaged", i, length,
             megatron_header_bytes + 4 * i);
    }
    if (offset < 0 || offset > bytes || length > (bytes - offset) / width) {
      refuse(tokens,
             "{} bytes, but sequence {} of {} has {} tokens of {} bytes at byte {}: truncated, or "
             "index and data do not belong together",
             bytes, i, index.path(), length, width, offset);
    }
    covered += length * width;
    if (length == 0) continue;
    if (!segments.empty() &&
        offset == segments.back().offset_bytes + segments.back().tokens * width) {
      segments.back().tokens += length;
    } else {
      segments.push_back({number, offset, length, stored});
    }
  }
  if (covered != bytes) {
    refuse(tokens,
           "{} bytes, but the sequences of {} make {}: index and data do not belong together",
           bytes, index.path(), covered);
  }
  return segments;
}

std::string sniff_kind(const std::string& path) {
  const auto suffix = fs::path(path).extension();
  const MappedFile file(path);
  if (has_megatron_magic(file)) return "megatron";
  if (suffix == ".bin") {
    if (const auto index = with_suffix(path, ".idx"); fs::exists(index)) return "megatron";
    const std::int32_t word = first_word(file);
    if (word == llmc::magic) return "llmc";
    if (const char* what = llmc::name_of(word)) {
      refuse(file, "is {} (magic {} at byte 0): no training tokens", what, word);
    }
    return "nanogpt";
  }
  return "text";
}

}  // namespace adaptra::data
