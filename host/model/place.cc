#include "model/place.h"

#include <filesystem>

#include "core/error.h"
#include "core/printable.h"
#include "io/gguf_model.h"
#include "publishers/formats.h"
#include "train/loop/run_directory.h"
#include "weights/publish/peft_config.h"

namespace lamina::model {
namespace fs = std::filesystem;
namespace {

bool has_adapter_config(const fs::path& directory) {
  return fs::exists(directory / publishers::kAdapterConfig);
}

}  // namespace

std::string base_of_adapter(const std::string& path) {
  const fs::path directory = path;
  if (!has_adapter_config(directory) || fs::exists(directory / "config.json") ||
      fs::exists(directory / "model.toml"))
    return {};
  const std::string base = weights::read_peft_config(path).base;
  for (const fs::path& candidate : {directory / base, fs::path(base)}) {
    if (base.empty() || !fs::exists(candidate)) continue;
    if (fs::is_directory(candidate) || !io::gguf_in(candidate.string()).empty())
      return candidate.lexically_normal().string();
    throw UserError(
        ExitCode::checkpoint,
        {fmt::format("{}/{}", path, publishers::kAdapterConfig),
         fmt::format("'base_model_name_or_path' must be the directory of a model or a GGUF file, "
                     "got '{}'",
                     printable(base)),
         {"give its model with -m, and --adapter " + path}});
  }
  throw UserError(ExitCode::checkpoint,
                  {path,
                   fmt::format("is an adapter of '{}', which does not exist", printable(base)),
                   {"give its model with -m, and --adapter " + path}});
}

ModelPlace classify(const std::string& path) {
  if (std::string base = base_of_adapter(path); !base.empty())
    return AdapterPlace{path, std::move(base)};
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
