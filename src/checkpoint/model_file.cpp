#include "checkpoint/model_file.hpp"

#include "checkpoint/file_index.hpp"
#include "checkpoint/raw_file.hpp"
#include "core/build_info.hpp"
#include "core/error.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <set>

namespace adaptra::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

[[noreturn]] void bad(const fs::path& file, const std::string& what) {
  throw Error(ExitCode::file, fmt::format("{}: {}", file.string(), what));
}

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// ---- numbers ----

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float from_fp16(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16, fraction = half & 0x3ffu;
  const std::uint32_t exponent = half >> 10 & 0x1fu;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact
    return std::bit_cast<float>(
        sign | std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24f));
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

std::vector<float> widen(const RawFile& file, std::uint64_t offset, std::int64_t count,
                         const std::string& type) {
  std::vector<float> values(static_cast<std::size_t>(count));
  if (type == "F32") {
    file.read(std::as_writable_bytes(std::span(values)), offset);
    return values;
  }
  std::vector<std::uint16_t> halves(values.size());
  file.read(std::as_writable_bytes(std::span(halves)), offset);
  std::transform(halves.begin(), halves.end(), values.begin(),
                 type == "BF16" ? from_bf16 : from_fp16);
  return values;
}

std::vector<std::byte> narrow(std::span<const float> values, NumberType type) {
  if (type == NumberType::f32) {
    const auto bytes = std::as_bytes(values);
    return {bytes.begin(), bytes.end()};
  }
  std::vector<std::uint16_t> halves(values.size());
  std::transform(values.begin(), values.end(), halves.begin(), to_bf16);
  const auto bytes = std::as_bytes(std::span<const std::uint16_t>(halves));
  return {bytes.begin(), bytes.end()};
}

std::vector<float> transposed(std::span<const float> values, std::int64_t rows,
                              std::int64_t columns) {
  std::vector<float> out(values.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      out[static_cast<std::size_t>(c * rows + r)] =
          values[static_cast<std::size_t>(r * columns + c)];
    }
  }
  return out;
}

// A file under a temporary name until it is whole.
class OutputFile {
 public:
  explicit OutputFile(fs::path path)
      : path_(std::move(path)), temporary_(path_.string() + ".tmp"), file_(create(temporary_)) {}
  void append(std::span<const std::byte> bytes) {
    file_.write(bytes, at_);
    at_ += bytes.size();
  }
  void finish() {
    file_.sync();
    file_.close();
    rename_for_good(temporary_, fs::absolute(path_));
  }

 private:
  static RawFile create(const fs::path& path) {
    if (!std::ofstream(path, std::ios::trunc)) bad(path, "cannot be written");
    return {path, RawFile::Access::write};
  }
  fs::path path_, temporary_;
  RawFile file_;
  std::uint64_t at_ = 0;
};

// ---- the model ----

std::map<std::string, ModelTensor*> by_name(std::vector<ModelTensor>& tensors) {
  std::map<std::string, ModelTensor*> map;
  for (auto& tensor : tensors) map[tensor.name] = &tensor;
  return map;
}

void check_shape(const fs::path& file, const ModelShape& s) {
  const auto in = [](std::int64_t value, std::int64_t most) { return value >= 1 && value <= most; };
  if (!in(s.layers, 10'000) || !in(s.channels, 1'000'000) || !in(s.vocabulary, 10'000'000) ||
      !in(s.context_tokens, 10'000'000) || s.heads < 1 || s.channels % s.heads != 0) {
    bad(file, fmt::format("no possible GPT-2: {} layers, {} channels, {} heads, vocabulary {}, "
                          "context {}",
                          s.layers, s.channels, s.heads, s.vocabulary, s.context_tokens));
  }
}

// ---- safetensors ----

struct StoredTensor {
  std::string type;
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;
  fs::path file;
};

json parse_header(const std::string& text, const fs::path& file) {
  std::set<std::string> seen;
  std::string twice;
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::key && depth == 1 &&
        !seen.insert(value.get<std::string>()).second) {
      twice = value.get<std::string>();
    }
    return true;
  };
  auto header = json::parse(text, watch, false);
  if (!header.is_object()) bad(file, "the header is not a JSON object");
  if (!twice.empty()) bad(file, "tensor " + twice + " stands twice in the header");
  return header;
}

void read_header(const fs::path& path, std::map<std::string, StoredTensor>& tensors) {
  const RawFile file(path, RawFile::Access::read);
  const std::uint64_t size = file.size();
  std::uint64_t length = 0;
  if (size < 8) bad(path, "is too short to be a safetensors file");
  file.read(std::as_writable_bytes(std::span(&length, 1)), 0);
  if (length > 100'000'000 || length > size - 8) {
    bad(path, "is neither a safetensors file nor an llm.c model");
  }
  std::string text(length, '\0');
  file.read(std::as_writable_bytes(std::span(text)), 8);
  std::map<std::uint64_t, std::pair<std::uint64_t, std::string>> ranges;
  const auto header = parse_header(text, path);
  for (const auto& [name, item] : header.items()) {
    if (name == "__metadata__") continue;
    StoredTensor tensor;
    std::vector<std::uint64_t> range;
    try {
      tensor.type = item.at("dtype").get<std::string>();
      tensor.shape = item.at("shape").get<std::vector<std::int64_t>>();
      range = item.at("data_offsets").get<std::vector<std::uint64_t>>();
    } catch (const json::exception&) {
      bad(path, "tensor " + name + " has no dtype, shape and data_offsets");
    }
    if (range.size() != 2 || range[0] > range[1] || range[1] > size - 8 - length) {
      bad(path, "tensor " + name + " lies outside the file");
    }
    tensor.offset = 8 + length + range[0];
    tensor.file = path;
    if (range[0] != range[1] && !ranges.emplace(range[0], std::pair(range[1], name)).second) {
      bad(path, "tensor " + name + " lies on another one");
    }
    // Only what the model uses has to be of a type that is read here; buffers may be of any.
    const std::map<std::string, std::uint64_t> sizes{{"F32", 4}, {"F16", 2}, {"BF16", 2}};
    if (const auto bytes = sizes.find(tensor.type); bytes != sizes.end()) {
      std::uint64_t need = bytes->second;
      for (const auto axis : tensor.shape) {
        if (axis < 0 || (axis > 0 && need > size / static_cast<std::uint64_t>(axis)))
          need = size + 1;
        else
          need *= static_cast<std::uint64_t>(axis);
      }
      if (need != range[1] - range[0]) bad(path, "tensor " + name + ": shape and bytes disagree");
    }
    if (!tensors.emplace(name, tensor).second) bad(path, "tensor " + name + " stands in two files");
  }
  std::uint64_t at = 0;
  for (const auto& [begin, end_name] : ranges) {
    if (begin != at)
      bad(path, "bytes before tensor " + end_name.second + " overlap or belong to none");
    at = end_name.first;
  }
  if (at != size - 8 - length) bad(path, "bytes at the end belong to no tensor");
}

json read_json(const fs::path& path) {
  std::ifstream file(path);
  auto value = json::parse(file, nullptr, false);
  if (!value.is_object()) bad(path, "is missing or not a JSON object");
  return value;
}

// Heads, and that the rest of config.json is the GPT-2 that Adaptra computes.
std::int64_t heads_of_config(const fs::path& path, const ModelShape& s) {
  const auto config = read_json(path);
  const auto expect = [&](const char* key, const json& wanted) {
    if (config.contains(key) && !config[key].is_null() && config[key] != wanted) {
      bad(path, fmt::format("{} is {}, but must be {}", key, config[key].dump(), wanted.dump()));
    }
  };
  expect("vocab_size", s.vocabulary);
  expect("n_positions", s.context_tokens);
  expect("n_embd", s.channels);
  expect("n_layer", s.layers);
  expect("n_inner", 4 * s.channels);
  expect("layer_norm_epsilon", 1e-5);
  expect("scale_attn_by_inverse_layer_idx", false);
  expect("tie_word_embeddings", true);
  if (config.value("activation_function", "gelu_new") != "gelu_pytorch_tanh") {
    expect("activation_function", "gelu_new");
  }
  if (!config.contains("n_head") || !config["n_head"].is_number_integer()) {
    bad(path, "n_head is missing");
  }
  return config["n_head"].get<std::int64_t>();
}

bool is_buffer(const std::string& name) {
  return name.starts_with("h.") &&
         (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

ModelFile read_hugging_face(const fs::path& path, const fs::path& config,
                            const std::vector<fs::path>& files, std::optional<std::int64_t> heads) {
  std::map<std::string, StoredTensor> stored, plain;
  for (const auto& file : files) read_header(file, stored);
  for (const auto& [name, tensor] : stored) {
    constexpr std::string_view prefix = "transformer.";
    const auto bare = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    if (is_buffer(bare)) continue;
    if (!plain.emplace(bare, tensor).second) bad(path, "tensor " + bare + " stands there twice");
  }
  const auto axes = [&](const char* name) {
    const auto found = plain.find(name);
    if (found == plain.end() || found->second.shape.size() != 2) {
      bad(path, fmt::format("tensor {} is missing or not a matrix", name));
    }
    return found->second.shape;
  };
  ModelFile model;
  model.shape.vocabulary = axes("wte.weight")[0];
  model.shape.channels = axes("wte.weight")[1];
  model.shape.context_tokens = axes("wpe.weight")[0];
  while (plain.contains(fmt::format("h.{}.ln_1.weight", model.shape.layers))) ++model.shape.layers;
  if (heads) {
    model.shape.heads = *heads;
  } else if (fs::exists(config)) {
    model.shape.heads = heads_of_config(config, model.shape);
  } else {
    bad(path, "has no config.json beside it: give the number of heads with --heads");
  }
  check_shape(path, model.shape);

  const auto fetch = [&](const std::string& name, const StoredTensor& tensor) {
    if (tensor.type != "F32" && tensor.type != "F16" && tensor.type != "BF16") {
      bad(tensor.file,
          fmt::format("tensor {} has type {}; F32, F16 and BF16 are read", name, tensor.type));
    }
    return widen(RawFile(tensor.file, RawFile::Access::read), tensor.offset,
                 elements_of(tensor.shape), tensor.type);
  };
  model.tensors = model_tensors(model.shape);
  for (auto& tensor : model.tensors) {
    const auto found = plain.find(tensor.name);
    if (found == plain.end()) bad(path, "tensor " + tensor.name + " is missing");
    if (found->second.shape != tensor.shape) {
      bad(path, fmt::format("tensor {} has shape ({}) instead of ({})", tensor.name,
                            fmt::join(found->second.shape, ","), fmt::join(tensor.shape, ",")));
    }
    tensor.values = fetch(tensor.name, found->second);
    plain.erase(found);
  }
  if (const auto head = plain.find("lm_head.weight"); head != plain.end()) {
    const auto values = fetch("lm_head.weight", head->second);
    const auto& tied = model.tensors.front().values;
    if (values.size() != tied.size() ||
        std::memcmp(values.data(), tied.data(), tied.size() * sizeof(float)) != 0) {
      bad(path, "lm_head.weight is not wte.weight; Adaptra's GPT-2 ties them");
    }
    plain.erase(head);
  }
  if (!plain.empty()) bad(path, "tensor " + plain.begin()->first + " is not part of a GPT-2");
  return model;
}

ModelFile read_folder(const fs::path& folder, std::optional<std::int64_t> heads) {
  std::vector<fs::path> files;
  if (const auto index = folder / "model.safetensors.index.json"; fs::exists(index)) {
    std::set<std::string> names;
    const auto map = read_json(index);
    if (!map.contains("weight_map")) bad(index, "has no weight_map");
    for (const auto& [tensor, file] : map["weight_map"].items()) {
      if (!file.is_string()) bad(index, "weight_map of " + tensor + " is no file name");
      names.insert(fs::path(file.get<std::string>()).filename().string());
    }
    for (const auto& name : names) files.push_back(folder / name);
  } else {
    files.push_back(folder / "model.safetensors");
  }
  return read_hugging_face(folder, folder / "config.json", files, heads);
}

// ---- llm.c ----

constexpr std::int32_t llmc_model_magic = 20240326;
using LlmcHeader = std::array<std::int32_t, 256>;

// Order of llm.c: one kind of tensor after the other, each for all layers.
constexpr std::array llmc_layer_order = {
    "ln_1.weight",        "ln_1.bias",        "attn.c_attn.weight", "attn.c_attn.bias",
    "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight",        "ln_2.bias",
    "mlp.c_fc.weight",    "mlp.c_fc.bias",    "mlp.c_proj.weight",  "mlp.c_proj.bias"};

std::vector<std::string> llmc_order(const ModelShape& shape) {
  std::vector<std::string> names = {"wte.weight", "wpe.weight"};
  for (const char* kind : llmc_layer_order) {
    for (std::int64_t l = 0; l < shape.layers; ++l)
      names.push_back(fmt::format("h.{}.{}", l, kind));
  }
  names.insert(names.end(), {"ln_f.weight", "ln_f.bias"});
  return names;
}

bool is_linear(const ModelTensor& tensor) {
  return tensor.shape.size() == 2 && tensor.name.starts_with("h.");
}

ModelFile read_llmc(const fs::path& path) {
  const RawFile file(path, RawFile::Access::read);
  LlmcHeader header{};
  file.read(std::as_writable_bytes(std::span(header)), 0);
  if (header[1] != 3 && header[1] != 5) {
    bad(path,
        fmt::format("is an llm.c model of version {}; 3 (fp32) and 5 (bf16) are read", header[1]));
  }
  const std::string type = header[1] == 3 ? "F32" : "BF16";
  const std::uint64_t width = header[1] == 3 ? 4 : 2;
  ModelFile model;
  model.shape = {header[4], header[6], header[5], header[3], header[2]};
  const std::int64_t padded = header[7];
  check_shape(path, model.shape);
  if (padded < model.shape.vocabulary || padded > 20'000'000) {
    bad(path,
        fmt::format("padded vocabulary {} for vocabulary {}", padded, model.shape.vocabulary));
  }
  model.tensors = model_tensors(model.shape);
  const auto padding =
      static_cast<std::uint64_t>((padded - model.shape.vocabulary) * model.shape.channels) * width;
  std::uint64_t need = sizeof header + padding;
  for (const auto& tensor : model.tensors) {
    need += static_cast<std::uint64_t>(elements_of(tensor.shape)) * width;
  }
  if (file.size() != need) {
    bad(path, fmt::format("has {} bytes, its header needs {}", file.size(), need));
  }
  const auto tensors = by_name(model.tensors);
  std::uint64_t at = sizeof header;
  for (const auto& name : llmc_order(model.shape)) {
    auto& tensor = *tensors.at(name);
    tensor.values = widen(file, at, elements_of(tensor.shape), type);
    at += tensor.values.size() * width;
    if (name == "wte.weight") at += padding;
    if (is_linear(tensor))
      tensor.values = transposed(tensor.values, tensor.shape[1], tensor.shape[0]);
  }
  return model;
}

}  // namespace

std::vector<ModelTensor> model_tensors(const ModelShape& shape) {
  const auto c = shape.channels;
  std::vector<ModelTensor> list;
  const auto add = [&](std::string name, std::vector<std::int64_t> axes) {
    list.push_back({std::move(name), std::move(axes), {}});
  };
  add("wte.weight", {shape.vocabulary, c});
  add("wpe.weight", {shape.context_tokens, c});
  for (std::int64_t l = 0; l < shape.layers; ++l) {
    const auto h = fmt::format("h.{}.", l);
    const auto linear = [&](const std::string& name, std::int64_t in, std::int64_t out) {
      add(h + name + ".weight", {in, out});
      add(h + name + ".bias", {out});
    };
    add(h + "ln_1.weight", {c});
    add(h + "ln_1.bias", {c});
    linear("attn.c_attn", c, 3 * c);
    linear("attn.c_proj", c, c);
    add(h + "ln_2.weight", {c});
    add(h + "ln_2.bias", {c});
    linear("mlp.c_fc", c, 4 * c);
    linear("mlp.c_proj", 4 * c, c);
  }
  add("ln_f.weight", {c});
  add("ln_f.bias", {c});
  return list;
}

ModelFile read_model(const fs::path& path, std::optional<std::int64_t> heads) {
  if (fs::is_directory(path)) return read_folder(path, heads);
  std::int32_t magic = 0;
  if (const RawFile file(path, RawFile::Access::read); file.size() >= sizeof(LlmcHeader)) {
    file.read(std::as_writable_bytes(std::span(&magic, 1)), 0);
  }
  if (magic == llmc_model_magic) return read_llmc(path);
  return read_hugging_face(path, fs::absolute(path).parent_path() / "config.json", {path}, heads);
}

void write_hugging_face(const fs::path& folder, const ModelFile& model, NumberType type) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) bad(folder, "cannot be made: " + problem.message());
  const std::uint64_t width = type == NumberType::f32 ? 4 : 2;
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::uint64_t at = 0;
  for (const auto& tensor : model.tensors) {
    const auto end = at + tensor.values.size() * width;
    header[tensor.name] = {{"dtype", type == NumberType::f32 ? "F32" : "BF16"},
                           {"shape", tensor.shape},
                           {"data_offsets", {at, end}}};
    at = end;
  }
  auto text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  OutputFile file(folder / "model.safetensors");
  file.append(std::as_bytes(std::span(&length, 1)));
  file.append(std::as_bytes(std::span(text)));
  for (const auto& tensor : model.tensors) file.append(narrow(tensor.values, type));
  file.finish();

  const nlohmann::ordered_json config = {{"architectures", {"GPT2LMHeadModel"}},
                                         {"model_type", "gpt2"},
                                         {"activation_function", "gelu_new"},
                                         {"layer_norm_epsilon", 1e-5},
                                         {"n_embd", model.shape.channels},
                                         {"n_head", model.shape.heads},
                                         {"n_inner", nullptr},
                                         {"n_layer", model.shape.layers},
                                         {"n_positions", model.shape.context_tokens},
                                         {"vocab_size", model.shape.vocabulary},
                                         {"tie_word_embeddings", true}};
  const auto config_text = config.dump(2) + "\n";
  OutputFile config_file(folder / "config.json");
  config_file.append(std::as_bytes(std::span(config_text)));
  config_file.finish();
}

void write_llmc(const fs::path& path, const ModelFile& model, NumberType type) {
  const auto& s = model.shape;
  const std::int64_t padded = (s.vocabulary + 127) / 128 * 128;
  LlmcHeader header{};
  header[0] = llmc_model_magic;
  header[1] = type == NumberType::f32 ? 3 : 5;
  const std::array fields = {s.context_tokens, s.vocabulary, s.layers, s.heads, s.channels, padded};
  for (std::size_t i = 0; i < fields.size(); ++i)
    header[i + 2] = static_cast<std::int32_t>(fields[i]);
  OutputFile file(path);
  file.append(std::as_bytes(std::span(header)));
  std::map<std::string, const ModelTensor*> tensors;
  for (const auto& tensor : model.tensors) tensors[tensor.name] = &tensor;
  for (const auto& name : llmc_order(s)) {
    const auto& tensor = *tensors.at(name);
    if (is_linear(tensor)) {
      file.append(narrow(transposed(tensor.values, tensor.shape[0], tensor.shape[1]), type));
    } else {
      file.append(narrow(tensor.values, type));
    }
    if (name == "wte.weight") {
      const auto zeros = static_cast<std::size_t>((padded - s.vocabulary) * s.channels);
      file.append(narrow(std::vector<float>(zeros), type));
    }
  }
  file.finish();
}

void write_checkpoint(const fs::path& path, ModelFile& model, const std::string& source) {
  RunState state;
  state.integers = {{"model.layers", model.shape.layers},
                    {"model.channels", model.shape.channels},
                    {"model.heads", model.shape.heads},
                    {"model.vocabulary", model.shape.vocabulary},
                    {"model.context_tokens", model.shape.context_tokens}};
  state.texts = {{"build", build_line()}, {"imported_from", source}};
  std::vector<TensorEntry> entries;
  for (const auto& tensor : model.tensors) {
    entries.push_back({"weights", tensor.name, tensor.shape, 0, 0, 0});
  }
  const fs::path temporary = path.string() + ".tmp";
  auto index = lay_out(temporary, std::move(entries), state);
  RawFile file(temporary, RawFile::Access::write);
  for (std::size_t i = 0; i < index.tensors.size(); ++i) {
    const auto bytes = std::as_bytes(std::span(model.tensors[i].values));
    file.write(bytes, index.tensors[i].offset);
    index.tensors[i].sum = crc(0, bytes);
  }
  seal(file, index);
  file.sync();
  file.close();
  rename_for_good(temporary, fs::absolute(path));
}

ModelFile read_checkpoint(const fs::path& path, std::optional<std::int64_t> heads) {
  const auto index = read_index(path);
  const auto number = [&](const char* key) -> std::int64_t {
    const auto found = index.state.integers.find(std::string("model.") + key);
    return found == index.state.integers.end() ? 0 : found->second;
  };
  ModelFile model;
  const auto* wte = index.find("weights", "wte.weight");
  const auto* wpe = index.find("weights", "wpe.weight");
  if (wte == nullptr || wpe == nullptr || wte->shape.size() != 2 || wpe->shape.size() != 2) {
    bad(path, "holds no GPT-2: weights/wte.weight or weights/wpe.weight is missing");
  }
  model.shape = {0, wte->shape[1], heads.value_or(number("heads")), wte->shape[0], wpe->shape[0]};
  while (index.find("weights", fmt::format("h.{}.ln_1.weight", model.shape.layers)) != nullptr) {
    ++model.shape.layers;
  }
  if (model.shape.heads == 0) bad(path, "does not record the number of heads: give --heads");
  check_shape(path, model.shape);
  model.tensors = model_tensors(model.shape);
  const RawFile file(path, RawFile::Access::read);
  for (auto& tensor : model.tensors) {
    const auto* entry = index.find("weights", tensor.name);
    if (entry == nullptr || entry->shape != tensor.shape) {
      bad(path, "tensor weights/" + tensor.name + " is missing or of another shape");
    }
    tensor.values.resize(static_cast<std::size_t>(elements_of(tensor.shape)));
    const auto bytes = std::as_writable_bytes(std::span(tensor.values));
    file.read(bytes, entry->offset);
    if (crc(0, bytes) != entry->sum) check_tensor(file, path, *entry);
  }
  return model;
}

}  // namespace adaptra::checkpoint
