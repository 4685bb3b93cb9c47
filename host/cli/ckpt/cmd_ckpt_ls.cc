// lamina ckpt ls: contents of checkpoints.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "cli/ckpt/checkpoints.h"
#include "cli/shell/command.h"
#include "cli/shell/text.h"
#include "cli/shell/units.h"
#include "core/json_writer.h"
#include "io/gguf_model.h"
#include "io/manifest.h"
#include "model/open.h"
#include "model/place.h"
#include "train/checkpoint/best_checkpoint.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

struct Listed {
  std::string path;
  std::optional<std::int64_t> step;  // absent for published weights
  std::optional<std::uint64_t> tokens;
  std::optional<double> validation_loss;
  std::string family;
  bool whole = true;            // the manifest exists
  std::uint64_t num_bytes = 0;  // of all files together
  double age_seconds = 0;
};

// The entries of a directory, or the parts of a GGUF file.
std::vector<fs::directory_entry> files_of(const std::string& path) {
  std::vector<fs::directory_entry> out;
  if (fs::is_directory(path)) {
    for (const fs::directory_entry& file : fs::directory_iterator(path)) out.push_back(file);
  } else {
    const io::GgufModel model(path);
    for (const auto& part : model.parts()) out.emplace_back(part->path());
  }
  return out;
}

Listed describe(const std::string& path) {
  Listed out{.path = path};
  fs::file_time_type newest = fs::file_time_type::min();
  for (const fs::directory_entry& file : files_of(path)) {
    std::error_code ec;  // a link may lead nowhere, or to itself
    if (!file.is_regular_file(ec)) continue;
    out.num_bytes += file.file_size();
    newest = std::max(newest, file.last_write_time());
  }
  if (newest != fs::file_time_type::min())
    out.age_seconds = std::max(
        0.0, std::chrono::duration<double>(fs::file_time_type::clock::now() - newest).count());
  out.whole = !lacks_manifest(path);
  if (!fs::exists(fs::path(path) / io::kManifestName)) return out;
  io::FileManifest manifest = io::read_manifest(path);
  JsonValue info = manifest.info();
  if (JsonValue step = info.find("step")) out.step = step.as_int64();
  if (JsonValue tokens = info.find("tokens")) out.tokens = tokens.as_uint64();
  if (JsonValue loss = info.find(train::kValidationLossKey)) out.validation_loss = loss.as_double();
  if (JsonValue family = info.find("family")) out.family = family.as_string();
  return out;
}

std::string list_as_text(const std::vector<Listed>& listed, bool tensors) {
  std::string out;
  for (const Listed& c : listed) {
    std::string progress =
        c.step                      ? fmt::format("step {:>8}  {:>7} tokens", *c.step,
                             c.tokens ? count_text(static_cast<double>(*c.tokens)) : "?")
        : !c.whole                  ? "incomplete: no manifest"
        : model::is_adapter(c.path) ? "adapter"
                                    : "published weights";
    const std::string validation =
        c.validation_loss ? fmt::format("  validation loss {:.4f}", *c.validation_loss) : "";
    out += fmt::format("{}  {:>9}  {:>7} old  {}{}\n", progress,
                       bytes_text(static_cast<double>(c.num_bytes)), duration_text(c.age_seconds),
                       c.path, validation);
    if (!tensors) continue;
    for_each_tensor(c.path, [&](const std::string& file, const io::StoredTensor& t) {
      out += fmt::format("  {:<22} {:<5} [{}]  {}  {}\n", file, t.type, fmt::join(t.dims, ", "),
                         bytes_text(static_cast<double>(t.bytes.size())), t.name);
    });
  }
  return out;
}

std::string list_as_json(const std::vector<Listed>& listed, bool tensors) {
  JsonWriter json(2);
  json.begin_array();
  for (const Listed& c : listed) {
    json.begin_object().key("path").value(c.path).key("step");
    c.step ? json.value(*c.step) : json.null();
    json.key("tokens");
    c.tokens ? json.value(*c.tokens) : json.null();
    if (c.validation_loss) json.key("validation_loss").value(*c.validation_loss);
    json.key("whole").value(c.whole);
    json.key("family").value(c.family).key("bytes").value(c.num_bytes);
    json.key("age_seconds").value(c.age_seconds);
    if (tensors) {
      json.key("tensors").begin_array();
      for_each_tensor(c.path, [&](const std::string& file, const io::StoredTensor& t) {
        json.begin_object().key("file").value(file).key("name").value(t.name);
        json.key("type").value(t.type).key("shape").begin_array();
        for (std::uint64_t dim : t.dims) json.value(dim);
        json.end_array().key("bytes").value(t.bytes.size()).end_object();
      });
      json.end_array();
    }
    json.end_object();
  }
  return json.end_array().text() + "\n";
}

int run_ls(const Arguments& a, const Device&) {
  std::vector<std::string> paths;
  const std::string text = model::retry_if_removed(
      [&] {
        paths = checkpoints_of(a.positionals[0]);
        std::vector<Listed> listed;
        for (const std::string& path : paths) listed.push_back(describe(path));
        const bool tensors = a.globals.verbosity > 0;
        return a.flag("json") ? list_as_json(listed, tensors) : list_as_text(listed, tensors);
      },
      [&] { return std::ranges::any_of(paths, model::is_gone); });
  print(text);
  return 0;
}

}  // namespace

Command ckpt_ls_command() {
  return {.name = "ckpt ls",
          .summary = "lists checkpoints: steps, sizes, ages",
          .details = "With -v also every tensor.",
          .options = {json_option()},
          .positionals = {{.name = "DIR",
                           .doc = "A run directory, a checkpoint, a Hugging Face directory, an "
                                  "adapter or a GGUF file."}},
          .examples = {"lamina ckpt ls build/quickstart/run",
                       "lamina ckpt ls -v build/quickstart/run/checkpoints/step-00000100"},
          .run = run_ls};
}

}  // namespace lamina::cli
