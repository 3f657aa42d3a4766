#pragma once
// GPT-2 weights in the files of other programs: Hugging Face (config.json and model.safetensors,
// whole or in shards; fp32, fp16, bf16) and llm.c (version 3 fp32, version 5 bf16). In memory the
// names and shapes are Hugging Face's, linear weights [in, out], without padding. Local; throws
// Error{file} naming file and tensor.
//
// Formats: the safetensors specification; llm.c, train_gpt2.c (checkpoint header).

#include "checkpoint/checkpoint.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace adaptra::checkpoint {

struct ModelShape {
  std::int64_t layers = 0, channels = 0, heads = 0, vocabulary = 0, context_tokens = 0;
  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

struct ModelTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

struct ModelFile {
  ModelShape shape;
  std::vector<ModelTensor> tensors;  ///< in model order, see model_tensors()
};

/// How numbers are stored by writers: bf16 rounds to the nearest, ties to even.
enum class NumberType { f32, bf16 };

/// Names and shapes of a model, in order, without values.
std::vector<ModelTensor> model_tensors(const ModelShape& shape);

/// Reads a folder with config.json, a .safetensors file or an llm.c model, told apart by content.
/// `heads` is for .safetensors files without a config.json beside them.
ModelFile read_model(const std::filesystem::path& path, std::optional<std::int64_t> heads = {});

/// Writes `folder`/config.json and `folder`/model.safetensors.
void write_hugging_face(const std::filesystem::path& folder, const ModelFile& model,
                        NumberType type);
/// Writes an llm.c model; the vocabulary is padded to a multiple of 128 with zeros.
void write_llmc(const std::filesystem::path& file, const ModelFile& model, NumberType type);

/// A checkpoint with weights alone (step 0), from a model; and a model from a checkpoint of any
/// run. `heads` is for checkpoints that do not record them.
void write_checkpoint(const std::filesystem::path& file, ModelFile& model,
                      const std::string& source);
ModelFile read_checkpoint(const std::filesystem::path& file,
                          std::optional<std::int64_t> heads = {});

}  // namespace adaptra::checkpoint
