// lamina ckpt ls | verify | export: what is in checkpoints, whether it is whole, and as Hugging
// Face lays it out.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>

#include "cli/commands.h"
#include "cli/export/fold.h"
#include "cli/export/hf_export.h"
#include "cli/open_model.h"
#include "cli/text.h"
#include "cli/units.h"
#include "core/json_writer.h"
#include "io/manifest.h"
#include "io/weight_files.h"
#include "train/run_directory.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

// The checkpoints of a run directory, whole or not, oldest first; else the directory itself.
std::vector<std::string> checkpoints_of(const std::string& path) {
  if (fs::is_directory(path)) {
    std::vector<train::CheckpointEntry> entries = train::list_checkpoints(path);
    std::ranges::copy(train::list_incomplete(path), std::back_inserter(entries));
    std::ranges::stable_sort(entries, {}, &train::CheckpointEntry::step);
    std::vector<std::string> out;
    for (const train::CheckpointEntry& entry : entries) out.push_back(entry.path);
    if (!out.empty()) return out;
  }
  return {resolve_model_directory(path)};
}

// Training removes old checkpoints while we read: what is gone is not damaged.
bool is_gone(const std::string& path) {
  std::error_code ec;
  return !fs::exists(path, ec) && !ec;
}
constexpr int kMostAttempts = 10;

// A checkpoint of ours that has lost its manifest, or never had one.
bool lacks_manifest(const std::string& path) {
  return !fs::exists(fs::path(path) / io::kManifestName) &&
         fs::exists(fs::path(path) / "optimizer.safetensors");
}

struct Listed {
  std::string path;
  std::optional<std::int64_t> step;  // of one that training wrote
  std::optional<std::uint64_t> tokens;
  std::string family;
  bool whole = true;            // as far as the manifest's being there tells
  std::uint64_t num_bytes = 0;  // of all files
  double age_seconds = 0;
};

Listed describe(const std::string& path) {
  Listed out{.path = path};
  fs::file_time_type newest = fs::file_time_type::min();
  for (const fs::directory_entry& file : fs::directory_iterator(path)) {
    if (!file.is_regular_file()) continue;
    out.num_bytes += file.file_size();
    newest = std::max(newest, file.last_write_time());
  }
  if (newest != fs::file_time_type::min())
    out.age_seconds = std::max(
        0.0, std::chrono::duration<double>(fs::file_time_type::clock::now() - newest).count());
  out.whole = !lacks_manifest(path);
  if (!fs::exists(fs::path(path) / io::kManifestName)) return out;
  io::Manifest manifest = io::read_manifest(path);
  JsonValue info = manifest.info();
  if (JsonValue step = info.find("step")) out.step = step.as_int64();
  if (JsonValue tokens = info.find("tokens")) out.tokens = tokens.as_uint64();
  if (JsonValue family = info.find("family")) out.family = family.as_string();
  return out;
}

// Every tensor of every set of safetensors files in the directory.
template <typename Fn>
void for_each_tensor(const std::string& path, Fn fn) {
  for (const char* stem : {"model", "optimizer"}) {
    fs::path file = fs::path(path) / stem;
    if (!fs::exists(file.string() + ".safetensors") &&
        !fs::exists(file.string() + ".safetensors.index.json"))
      continue;
    io::WeightFiles files(path, stem);
    for (const io::SafetensorsFile& f : files.files())
      for (const io::StoredTensor& t : f.tensors()) fn(fs::path(f.path()).filename().string(), t);
  }
}

std::string list_as_text(const std::vector<Listed>& listed, bool tensors) {
  std::string out;
  for (const Listed& c : listed) {
    std::string progress =
        c.step    ? fmt::format("step {:>8}  {:>7} tokens", *c.step,
                             c.tokens ? count_text(static_cast<double>(*c.tokens)) : "?")
        : c.whole ? "published weights"
                  : "incomplete: no manifest";
    out += fmt::format("{}  {:>9}  {:>7} old  {}\n", progress,
                       bytes_text(static_cast<double>(c.num_bytes)), duration_text(c.age_seconds),
                       c.path);
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

int run_ls(const Arguments& a) {
  for (int attempt = 1;; ++attempt) {
    const std::vector<std::string> paths = checkpoints_of(a.positionals[0]);
    try {
      std::vector<Listed> listed;
      for (const std::string& path : paths) listed.push_back(describe(path));
      bool tensors = a.globals.verbosity > 0;
      print(a.flag("json") ? list_as_json(listed, tensors) : list_as_text(listed, tensors));
      return 0;
    } catch (const std::exception&) {
      if (attempt == kMostAttempts || std::ranges::none_of(paths, is_gone)) throw;
    }
  }
}

// Throws at the first difference; says what was checked.
std::string verify_one(const std::string& path) {
  if (lacks_manifest(path))
    throw UserError(
        ExitCode::checkpoint,
        {path,
         fmt::format("has no {}, so it is not a complete checkpoint", io::kManifestName),
         {"use an older checkpoint or another copy"}});
  if (!fs::exists(fs::path(path) / io::kManifestName)) {
    std::int64_t count = 0;
    for_each_tensor(path, [&](const std::string&, const io::StoredTensor&) { ++count; });
    if (count == 0) io::WeightFiles files(path);  // says what is there instead
    return fmt::format("{}: {} tensors, well-formed; it has no checksums to compare with", path,
                       count);
  }
  io::Manifest manifest = io::read_manifest(path);
  if (auto difference = io::first_difference(path, manifest, io::Check::checksums))
    throw UserError(ExitCode::checkpoint,
                    {"", *difference, {"it is damaged; use an older checkpoint or another copy"}});
  std::uint64_t bytes = 0;
  for (const io::FileDigest& file : manifest.files) bytes += file.num_bytes;
  for_each_tensor(path, [](const std::string&, const io::StoredTensor&) {});
  return fmt::format("{}: {} files, {}, as they were written", path, manifest.files.size(),
                     bytes_text(static_cast<double>(bytes)));
}

// Verifies all that are still there when their turn comes; returns those.
std::vector<std::string> verify_all(const std::vector<std::string>& paths, bool json) {
  std::vector<std::string> done;
  for (const std::string& path : paths) {
    std::string line;
    try {
      line = verify_one(path);
    } catch (const std::exception&) {
      if (!is_gone(path)) throw;
      continue;
    }
    done.push_back(path);
    if (!json) print(line + "\n");
  }
  return done;
}

int run_verify(const Arguments& a) {
  std::vector<std::string> done;
  for (int attempt = 1; done.empty(); ++attempt) {
    const std::vector<std::string> paths = checkpoints_of(a.positionals[0]);
    done = verify_all(paths, a.flag("json"));
    if (done.empty() && attempt == kMostAttempts)
      throw UserError(ExitCode::checkpoint,
                      {a.positionals[0],
                       "its checkpoints are removed faster than they can be read",
                       {"keep more of them (checkpoint.keep), or wait until the training ends"}});
  }
  if (!a.flag("json")) return 0;
  JsonWriter json(2);
  json.begin_object().key("ok").value(true).key("verified").begin_array();
  for (const std::string& path : done) json.value(path);
  print(json.end_array().end_object().text() + "\n");
  return 0;
}

struct ExportedFrom {
  std::string directory;
  Exported written;
};

ExportedFrom export_once(const Arguments& a) {
  OpenedModel opened = open_model(a.positionals[0], a.globals);
  if (opened.directory.empty())
    throw UserError(ExitCode::checkpoint, {a.positionals[0],
                                           "describes a model but has no weights; give a "
                                           "checkpoint, a run directory or a model directory",
                                           {}});
  std::optional<DType> dtype;
  if (a.given("dtype")) dtype = parse_dtype(a.text("dtype"));
  const std::string to = a.text("to");
  std::optional<FoldedModel> folded;
  if (!opened.model->family().exports_as().empty() && !std::filesystem::exists(to))
    folded.emplace(*opened.model, opened.directory, to, a.globals);
  return {opened.directory,
          export_to_hf(folded ? folded->model() : *opened.model,
                       folded ? folded->directory() : opened.directory, to, dtype)};
}

int run_export(const Arguments& a) {
  const auto [from, out] = while_training(a.positionals[0], [&] { return export_once(a); });
  if (!a.flag("json")) {
    print(fmt::format("{}: {} tensors, {}, from {}\n", a.text("to"), out.num_tensors,
                      bytes_text(static_cast<double>(out.num_bytes)), from));
    return 0;
  }
  JsonWriter json(2);
  json.begin_object().key("from").value(from).key("to").value(a.text("to"));
  json.key("tensors").value(out.num_tensors).key("bytes").value(out.num_bytes).end_object();
  print(json.text() + "\n");
  return 0;
}

const Positional kDirectory{.name = "DIR",
                            .doc = "A run directory, a checkpoint or a Hugging Face directory."};

}  // namespace

Command ckpt_ls_command() {
  return {.name = "ckpt ls",
          .summary = "lists checkpoints: steps, sizes, ages",
          .details = "With -v also every tensor.",
          .options = {json_option()},
          .positionals = {kDirectory},
          .examples = {"lamina ckpt ls runs/quickstart",
                       "lamina ckpt ls -v runs/quickstart/checkpoints/step-00000100"},
          .run = run_ls};
}

Command ckpt_verify_command() {
  return {.name = "ckpt verify",
          .summary = "checks checkpoints against the checksums they were written with",
          .details =
              "For a run directory, every checkpoint. Names the first file and tensor that differ "
              "and exits with 4. Directories without checksums (published models) are checked for "
              "their form.",
          .options = {json_option()},
          .positionals = {kDirectory},
          .examples = {"lamina ckpt verify runs/quickstart"},
          .run = run_verify};
}

Command ckpt_export_command() {
  Option to{.key = {.name = "to",
                    .type = Type::string,
                    .doc = "The directory to write; it must not exist."},
            .value = "DIR"};
  to.key.required = true;
  Option dtype{.key = {.name = "dtype", .type = Type::string}, .value = "TYPE"};
  dtype.key.choices = {"float32", "bfloat16"};
  dtype.key.doc = "Type of the tensors; as they are stored unless given.";
  return {.name = "ckpt export",
          .summary = "writes a model as a Hugging Face directory",
          .details =
              "config.json, model.safetensors under the published names, tokenizer files and "
              "generation_config.json. For a run directory, the newest checkpoint. Checkpoints "
              "hold float32, so an export without --dtype loads to the same bits.",
          .options = {to, dtype, json_option()},
          .positionals = {kDirectory},
          .examples = {"lamina ckpt export runs/quickstart --to model --dtype bfloat16"},
          .run = run_export};
}

}  // namespace lamina::cli
