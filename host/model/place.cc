#include "model/place.h"

#include <filesystem>

#include "core/error.h"
#include "core/open_file.h"
#include "core/printable.h"
#include "core/without_dots.h"
#include "io/gguf_model.h"
#include "publishers/formats.h"
#include "text/tokenizer.h"
#include "train/checkpoint/best_checkpoint.h"
#include "train/loop/run_directory.h"
#include "weights/publish/peft_config.h"

namespace lamina::model {
namespace fs = std::filesystem;
namespace {

bool has_adapter_config(const fs::path& directory) {
  return fs::exists(directory / publishers::kAdapterConfig);
}

bool is_toml_file(const fs::path& path) {
  std::error_code unknown;
  return path.extension() == ".toml" && fs::is_regular_file(path, unknown);
}

[[noreturn]] void refuse_base(const std::string& adapter, std::string what) {
  const std::string config = fmt::format("{}/{}", adapter, publishers::kAdapterConfig);
  throw UserError(
      ExitCode::checkpoint,
      {config,
       "'base_model_name_or_path' " + std::move(what),
       {"write the path of the adapter's model there; or give that model to a command that has "
        "--adapter, with --adapter " +
        adapter}});
}

}  // namespace

bool is_adapter(const std::string& path) {
  const fs::path directory = path;
  return has_adapter_config(directory) && !fs::exists(directory / "config.json") &&
         !fs::exists(directory / "model.toml");
}

std::string adapter_directory(const std::string& path) {
  const std::string named = train::resolve_best(path);
  if (has_adapter_config(named)) return named;
  if (std::string newest = train::newest_checkpoint(named);
      !newest.empty() && has_adapter_config(newest))
    return newest;
  std::error_code error;
  throw UserError(
      ExitCode::checkpoint,
      {named,
       !fs::exists(named, error)        ? "no such file or directory"
       : fs::is_directory(named, error) ? fmt::format("has no {}", publishers::kAdapterConfig)
                                        : "is not a directory",
       {"expected a directory as PEFT saves it, or a checkpoint or run with an adapter"}});
}

std::string base_of_adapter(const std::string& path) {
  const fs::path directory = path;
  if (!is_adapter(path)) return {};
  const std::string base = weights::read_peft_config(path).base;
  for (const fs::path& candidate : {directory / base, fs::path(base)}) {
    if (base.empty() || !fs::exists(candidate)) continue;
    if (fs::is_directory(candidate) || !io::gguf_in(candidate.string()).empty())
      return without_dots(candidate).string();
    refuse_base(path, fmt::format("must be the directory of a model or a GGUF file, got '{}'",
                                  printable(base)));
  }
  refuse_base(path, base.empty() ? "is missing; expected the directory of a model or a GGUF file"
                                 : fmt::format("is '{}', which does not exist; expected the "
                                               "directory of a model or a GGUF file",
                                               printable(base)));
}

std::string model_files(const std::string& path) {
  const std::string base = base_of_adapter(path);
  return train::resolve_model_files(base.empty() ? path : base);
}

std::string tokenizer_files(const std::string& path) {
  const std::string named = train::resolve_best(path);
  if (is_adapter(named)) return model_files(named);
  if (text::has_tokenizer(named)) return named;
  const std::string newest = train::newest_checkpoint(named);
  return newest.empty() ? named : newest;
}

void check_description(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::path(path).extension() == ".toml" &&
      (fs::is_regular_file(status) || !fs::status_known(status)))
    InputFile(path, ExitCode::usage);
}

ModelPlace classify(const std::string& path) {
  if (std::string base = base_of_adapter(path); !base.empty())
    return AdapterPlace{path, std::move(base)};
  if (is_toml_file(path)) return FilePlace{path};
  if (std::string gguf = io::gguf_in(path); !gguf.empty()) return GgufPlace{std::move(gguf)};
  if (fs::is_regular_file(path)) return FilePlace{path};
  DirectoryPlace out{.directory = train::resolve_model_directory(path)};
  const fs::path directory = out.directory;
  out.has_toml = fs::exists(directory / "model.toml");
  out.has_config = fs::exists(directory / "config.json");
  out.has_adapter = has_adapter_config(directory);
  return out;
}

}  // namespace lamina::model
