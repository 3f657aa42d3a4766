// adaptra-checkpoint verify|inspect|export|import: looks at checkpoints and exchanges weights with
// other programs.

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/file_index.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/model_file.hpp"
#include "core/build_info.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace adaptra;
namespace fs = std::filesystem;

constexpr const char* footer = R"(
Examples:
  adaptra-checkpoint verify runs/quickstart/checkpoints
  adaptra-checkpoint inspect runs/quickstart/checkpoints/step_00000100.h5
  adaptra-checkpoint export step_00000100.h5 --to safetensors -o gpt2-mine
  adaptra-checkpoint export step_00000100.h5 --to llm.c --dtype bf16 -o gpt2_mine_bf16.bin
  adaptra-checkpoint import gpt2 -o gpt2.h5

Exit codes: 0 done, 2 usage, 6 a file is bad, 70 internal error.)";

enum class Target { safetensors, llmc };

struct Arguments {
  std::vector<std::string> paths;
  std::string file, output;
  Target target = Target::safetensors;
  checkpoint::NumberType type = checkpoint::NumberType::f32;
  std::optional<std::int64_t> heads;
  bool overwrite = false;
};

// Files as they are, folders as the checkpoints in them.
std::vector<fs::path> files_of(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const auto& path : paths) {
    if (!fs::is_directory(path)) {
      files.emplace_back(path);
      continue;
    }
    const auto entries = checkpoint::list_folder(path);
    if (entries.empty()) throw Error(ExitCode::file, path + ": holds no checkpoint");
    for (const auto& entry : entries) files.push_back(entry.file);
  }
  return files;
}

ExitCode verify(const Arguments& arguments) {
  auto code = ExitCode::done;
  for (const auto& file : files_of(arguments.paths)) {
    const auto problems = checkpoint::verify(file);
    if (problems.empty()) fmt::print("{}: good\n", file.string());
    for (const auto& problem : problems) fmt::print(stderr, "error: {}\n", problem);
    if (!problems.empty()) code = ExitCode::file;
  }
  return code;
}

void inspect(const Arguments& arguments) {
  const auto index = checkpoint::read_index(arguments.file);
  fmt::print("{}: step {}, {}\n", arguments.file, index.state.step, format_bytes(index.file_bytes));
  for (const auto& [key, value] : index.state.integers) fmt::print("  {} = {}\n", key, value);
  for (const auto& [key, value] : index.state.numbers) fmt::print("  {} = {}\n", key, value);
  for (const auto& [key, value] : index.state.texts) {
    if (value.size() < 100 && value.find('\n') == std::string::npos) {
      fmt::print("  {} = {}\n", key, value);
    } else {
      fmt::print("  {}: text of {} bytes\n", key, value.size());
    }
  }
  fmt::print("{:<44} {:>18} {:>14} {:>9}\n", "tensor", "shape", "bytes", "crc32");
  for (const auto& tensor : index.tensors) {
    fmt::print("{:<44} {:>18} {:>14}  {:08x}\n", tensor.full_name(),
               fmt::format("({})", fmt::join(tensor.shape, ",")), tensor.bytes, tensor.sum);
  }
}

void check_output(const Arguments& arguments) {
  if (fs::exists(arguments.output) && !arguments.overwrite) {
    throw Error(ExitCode::usage, arguments.output + " is there already: --overwrite replaces it");
  }
}

void tell(const char* what, const checkpoint::ModelShape& s, const std::string& output) {
  fmt::print("{} {} layers, {} channels, {} heads, vocabulary {}, context {} to {}\n", what,
             s.layers, s.channels, s.heads, s.vocabulary, s.context_tokens, output);
}

void export_model(const Arguments& arguments) {
  check_output(arguments);
  const auto model = checkpoint::read_checkpoint(arguments.file, arguments.heads);
  if (arguments.target == Target::safetensors) {
    checkpoint::write_hugging_face(arguments.output, model, arguments.type);
  } else {
    checkpoint::write_llmc(arguments.output, model, arguments.type);
  }
  tell("exported", model.shape, arguments.output);
}

void import_model(const Arguments& arguments) {
  check_output(arguments);
  auto model = checkpoint::read_model(arguments.file, arguments.heads);
  checkpoint::write_checkpoint(arguments.output, model, arguments.file);
  tell("imported", model.shape, arguments.output);
}

void add_commands(CLI::App& app, Arguments& arguments) {
  auto* verify_command =
      app.add_subcommand("verify", "Reads every byte and names the tensors that are bad");
  verify_command->add_option("paths", arguments.paths, "Checkpoints, or folders of them")
      ->required();
  auto* inspect_command = app.add_subcommand("inspect", "Shows state and tensors");
  auto* export_command = app.add_subcommand("export", "Writes the weights for another program");
  auto* import_command = app.add_subcommand(
      "import", "Makes a checkpoint of weights: Hugging Face folder, .safetensors or llm.c model");
  for (auto* command : {inspect_command, export_command, import_command}) {
    command->add_option("file", arguments.file, "Input")->required();
  }
  const std::map<std::string, Target> targets{{"safetensors", Target::safetensors},
                                              {"llm.c", Target::llmc}};
  const std::map<std::string, checkpoint::NumberType> types{{"f32", checkpoint::NumberType::f32},
                                                            {"bf16", checkpoint::NumberType::bf16}};
  export_command
      ->add_option("--to", arguments.target, "safetensors (a folder with config.json) or llm.c")
      ->required()
      ->transform(CLI::CheckedTransformer(targets));
  export_command->add_option("--dtype", arguments.type, "f32 (the default) or bf16")
      ->transform(CLI::CheckedTransformer(types));
  for (auto* command : {export_command, import_command}) {
    command->add_option("-o,--output", arguments.output, "What to write")->required();
    command->add_option("--heads", arguments.heads,
                        "Attention heads, where the input does not say");
    command->add_flag("--overwrite", arguments.overwrite, "Replace the output");
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Looks at checkpoints and exchanges weights with other programs.",
               "adaptra-checkpoint"};
  app.footer(footer);
  app.set_version_flag("--version", build_line());
  app.require_subcommand(1);
  Arguments arguments;
  add_commands(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::usage);
  }
  try {
    auto code = ExitCode::done;
    if (app.got_subcommand("verify")) code = verify(arguments);
    if (app.got_subcommand("inspect")) inspect(arguments);
    if (app.got_subcommand("export")) export_model(arguments);
    if (app.got_subcommand("import")) import_model(arguments);
    return static_cast<int>(code);
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {} (a bug in Adaptra, please report)\n", error.what());
    return static_cast<int>(ExitCode::internal);
  }
}
