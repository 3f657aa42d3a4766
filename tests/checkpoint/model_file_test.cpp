#include "checkpoint/model_file.hpp"

#include "checkpoint/file_index.hpp"
#include "core/error.hpp"
#include "support/command.hpp"
#include "support/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace {

using namespace adaptra;
using checkpoint::ModelFile;
using checkpoint::NumberType;
using testing::HasSubstr;
namespace fs = std::filesystem;

const std::string program = std::string(ADAPTRA_BIN_DIR) + "/adaptra-checkpoint ";

// Values that bf16 holds exactly, all different enough to notice a tensor or an axis out of place.
ModelFile small_model() {
  ModelFile model;
  model.shape = {3, 8, 2, 131, 6};
  model.tensors = checkpoint::model_tensors(model.shape);
  std::uint32_t x = 1;
  for (auto& tensor : model.tensors) {
    tensor.values.resize(static_cast<std::size_t>(std::accumulate(
        tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>())));
    for (auto& value : tensor.values) {
      x = x * 1664525u + 1013904223u;
      value = (static_cast<float>(x >> 24) - 128) / 64;
    }
  }
  return model;
}

void expect_equal(const ModelFile& a, const ModelFile& b) {
  EXPECT_EQ(a.shape, b.shape);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    EXPECT_EQ(a.tensors[i].name, b.tensors[i].name);
    EXPECT_EQ(a.tensors[i].shape, b.tensors[i].shape);
    EXPECT_EQ(a.tensors[i].values, b.tensors[i].values) << a.tensors[i].name;
  }
}

std::string message_of(const fs::path& path, std::optional<std::int64_t> heads = 2) {
  try {
    (void)checkpoint::read_model(path, heads);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::file);
    return error.what();
  }
  return "no error";
}

// A safetensors file from its header and the bytes behind it.
std::string safetensors(const std::string& header, std::size_t bytes) {
  const std::uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + std::string(bytes, '\0');
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

TEST(ModelFile, RoundTripsKeepEveryBit) {
  const testing_support::TemporaryFolder folder;
  auto model = small_model();
  for (const auto type : {NumberType::f32, NumberType::bf16}) {
    checkpoint::write_hugging_face(folder.path() / "hf", model, type);
    expect_equal(checkpoint::read_model(folder.path() / "hf"), model);
    expect_equal(checkpoint::read_model(folder.path() / "hf/model.safetensors"), model);
    checkpoint::write_llmc(folder.path() / "model.bin", model, type);
    expect_equal(checkpoint::read_model(folder.path() / "model.bin"), model);
  }
  checkpoint::write_checkpoint(folder.path() / "a.h5", model, "here");
  expect_equal(checkpoint::read_checkpoint(folder.path() / "a.h5"), model);
  EXPECT_TRUE(checkpoint::verify(folder.path() / "a.h5").empty());
}

TEST(ModelFile, Bf16RoundsToTheNearestEven) {
  const testing_support::TemporaryFolder folder;
  auto model = small_model();
  auto& values = model.tensors.front().values;
  values[0] = 1.0f + 0x1p-8f;             // half way: to even, down
  values[1] = 1.0f + 0x1p-7f + 0x1p-8f;   // half way: to even, up
  values[2] = 1.0f + 0x1p-8f + 0x1p-20f;  // just above
  checkpoint::write_llmc(folder.path() / "m.bin", model, NumberType::bf16);
  const auto read = checkpoint::read_model(folder.path() / "m.bin").tensors.front().values;
  EXPECT_EQ(read[0], 1.0f);
  EXPECT_EQ(read[1], 1.0f + 0x1p-6f);
  EXPECT_EQ(read[2], 1.0f + 0x1p-7f);
}

TEST(ModelFile, LlmcHoldsOutTimesInOneKindAfterTheOther) {
  const testing_support::TemporaryFolder folder;
  const auto model = small_model();
  const auto path = folder.path() / "m.bin";
  checkpoint::write_llmc(path, model, NumberType::f32);
  const auto text = testing_support::read_text(path);
  const std::int64_t L = 3, C = 8, V = 131, Vp = 256, T = 6;
  ASSERT_EQ(text.size(), 1024u + 4u * static_cast<std::size_t>(Vp * C + T * C +
                                                               L * (12 * C * C + 13 * C) + 2 * C));
  std::vector<float> values((text.size() - 1024) / 4);
  std::memcpy(values.data(), text.data() + 1024, values.size() * 4);
  const auto at = [&](std::int64_t i) { return values[static_cast<std::size_t>(i)]; };
  EXPECT_EQ(at(V * C), 0.0f);  // padding
  const auto& attn = model.tensors[2 + 12 + 2];
  ASSERT_EQ(attn.name, "h.1.attn.c_attn.weight");
  const std::int64_t qkvw = Vp * C + T * C + 2 * L * C;
  for (const auto& [in, out] : {std::pair{0, 1}, {5, 17}, {7, 23}}) {
    EXPECT_EQ(at(qkvw + 1 * 3 * C * C + out * C + in),
              attn.values[static_cast<std::size_t>(in * 3 * C + out)]);
  }
}

TEST(ModelFile, HuggingFaceVariantsAreRead) {
  const testing_support::TemporaryFolder folder;
  const auto model = small_model();
  checkpoint::write_hugging_face(folder.path() / "hf", model, NumberType::f32);
  auto text = testing_support::read_text(folder.path() / "hf/model.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  auto header = text.substr(8, length);
  auto data = text.substr(8 + length);
  // Prefix; buffers of other types; a head that is the embedding.
  for (const char* name : {"\"wte.", "\"wpe.", "\"h.", "\"ln_f."}) {
    replace(header, name, std::string("\"transformer.") + (name + 1));
  }
  const auto end = data.size(), head = static_cast<std::size_t>(131 * 8 * 4);
  header.erase(header.find_last_of('}'));
  header +=
      ",\"transformer.h.0.attn.bias\":{\"dtype\":\"BOOL\",\"shape\":[1,1,3,3],\"data_offsets\":[" +
      std::to_string(end) + "," + std::to_string(end + 9) +
      "]},\"lm_head.weight\":{\"dtype\":\"F32\",\"shape\":[131,8],\"data_offsets\":[" +
      std::to_string(end + 9) + "," + std::to_string(end + 9 + head) + "]}}";
  const auto write = [&](std::string tail) {
    auto whole = safetensors(header, 0) + data + std::string(9, '\1') + tail;
    return folder.write("hf/model.safetensors", whole);
  };
  write(data.substr(0, head));
  expect_equal(checkpoint::read_model(folder.path() / "hf"), model);
  write(std::string(head, '\2'));
  EXPECT_THAT(message_of(folder.path() / "hf"), HasSubstr("lm_head.weight is not wte.weight"));
}

TEST(ModelFile, BadFilesAreRefusedByName) {
  const testing_support::TemporaryFolder folder;
  const auto model = small_model();
  const auto hf = folder.path() / "hf", bin = folder.path() / "m.bin";
  checkpoint::write_hugging_face(hf, model, NumberType::f32);
  checkpoint::write_llmc(bin, model, NumberType::f32);
  const auto good = testing_support::read_text(hf / "model.safetensors");
  const auto with = [&](const std::string& from, const std::string& to) {
    auto text = good;
    EXPECT_EQ(from.size(), to.size());
    replace(text, from, to);
    folder.write("hf/model.safetensors", text);
    return message_of(hf);
  };
  EXPECT_THAT(with("\"h.1.ln_2.bias\"", "\"h.1.ln_2.bios\""),
              HasSubstr("h.1.ln_2.bias is missing"));
  EXPECT_THAT(with("\"ln_f.bias\"", "\"ln_f.bibs\""), HasSubstr("ln_f.bias is missing"));
  EXPECT_THAT(with("\"shape\":[8,24]", "\"shape\":[24,8]"),
              HasSubstr("has shape (24,8) instead of (8,24)"));
  EXPECT_THAT(with("\"dtype\":\"F32\"", "\"dtype\":\"F99\""), HasSubstr("has type F99"));
  EXPECT_THAT(with("\"h.1.ln_1.bias\"", "\"h.0.ln_1.bias\""), HasSubstr("stands twice"));
  folder.write("hf/model.safetensors", good + "x");
  EXPECT_THAT(message_of(hf), HasSubstr("belong to no tensor"));
  folder.write("hf/model.safetensors", good.substr(0, good.size() - 1));
  EXPECT_THAT(message_of(hf), HasSubstr("lies outside the file"));
  folder.write("lone.safetensors", good);
  EXPECT_THAT(message_of(folder.path() / "lone.safetensors", std::nullopt), HasSubstr("--heads"));
  EXPECT_THAT(message_of(folder.write("x", "")), HasSubstr("too short"));
  EXPECT_THAT(message_of(folder.write("x", std::string(100, 'z'))), HasSubstr("neither"));
  EXPECT_THAT(message_of(folder.write("x", safetensors("[]", 0))), HasSubstr("JSON object"));
  folder.write("hf/model.safetensors", good);
  auto config = testing_support::read_text(hf / "config.json");
  replace(config, "gelu_new", "relu");
  folder.write("hf/config.json", config);
  EXPECT_THAT(message_of(hf, std::nullopt), HasSubstr("activation_function"));
  fs::resize_file(bin, fs::file_size(bin) - 2);
  EXPECT_THAT(message_of(bin), HasSubstr("its header needs"));
}

TEST(CheckpointProgram, ImportsVerifiesExports) {
  const testing_support::TemporaryFolder folder;
  const auto model = small_model();
  const auto at = [&](const char* name) { return (folder.path() / name).string(); };
  checkpoint::write_llmc(at("in.bin"), model, NumberType::f32);
  const auto run = [&](const std::string& line) {
    return testing_support::run_command(program + line);
  };
  ASSERT_EQ(run("import " + at("in.bin") + " -o " + at("step_00000000.h5")).code, 0);
  EXPECT_EQ(run("import " + at("in.bin") + " -o " + at("step_00000000.h5")).code, 2);
  EXPECT_EQ(run("verify " + folder.path().string()).code, 0);
  const auto shown = run("inspect " + at("step_00000000.h5"));
  EXPECT_THAT(shown.out, testing::AllOf(HasSubstr("model.heads = 2"),
                                        HasSubstr("weights/h.2.mlp.c_proj.weight")));
  ASSERT_EQ(run("export " + at("step_00000000.h5") + " --to llm.c -o " + at("out.bin")).code, 0);
  EXPECT_EQ(testing_support::read_text(at("in.bin")), testing_support::read_text(at("out.bin")));
  ASSERT_EQ(run("export " + at("step_00000000.h5") + " --to safetensors -o " + at("hf")).code, 0);
  expect_equal(checkpoint::read_model(at("hf")), model);

  const auto index = checkpoint::read_index(at("step_00000000.h5"));
  const auto* tensor = index.find("weights", "h.1.mlp.c_fc.weight");
  {
    std::fstream raw(at("step_00000000.h5"), std::ios::in | std::ios::out | std::ios::binary);
    raw.seekp(static_cast<std::streamoff>(tensor->offset));
    raw.put('\x55');
  }
  for (const auto& line :
       {"verify " + folder.path().string(),
        "export " + at("step_00000000.h5") + " --to llm.c -o " + at("bad.bin")}) {
    const auto bad = run(line);
    EXPECT_EQ(bad.code, 6) << line;
    EXPECT_THAT(bad.err, HasSubstr("tensor weights/h.1.mlp.c_fc.weight is damaged"));
  }
  EXPECT_EQ(run("verify " + at("missing.h5")).code, 6);
  EXPECT_EQ(run("frobnicate").code, 2);
}

}  // namespace
