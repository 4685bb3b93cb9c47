// lamina ckpt verify: checks that checkpoints are complete and unchanged.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/ckpt/checkpoints.h"
#include "cli/shell/command.h"
#include "cli/shell/text.h"
#include "cli/shell/units.h"
#include "core/json_writer.h"
#include "core/printable.h"
#include "io/manifest.h"
#include "io/weight_files.h"
#include "model/open.h"
#include "model/place.h"
#include "publishers/formats.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

// Checks that each shard contains the tensors that the index assigns to it.
void check_shards(const io::WeightFiles& files) {
  const std::vector<std::string_view> tensors = files.names_without_shard();
  if (tensors.empty()) return;
  const std::string_view tensor = tensors.front();
  std::vector<std::string> notes{files.shard_note(tensor)};
  if (const std::size_t more = tensors.size() - 1; more > 0)
    notes.push_back(fmt::format("and {} more", more));
  throw UserError(ExitCode::checkpoint,
                  {files.path(), fmt::format("tensor '{}' is missing", printable(tensor)), notes});
}

// Throws at the first difference; returns a line about the checks.
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
    const std::string_view stem = model::is_adapter(path) ? publishers::kAdapterStem : "model";
    if (count == 0 || io::has_weight_set(path, stem))  // throws a better message if there is none
      check_shards(io::WeightFiles(path, stem));
    return fmt::format("{}: {} tensors, well-formed; it has no checksums to compare with", path,
                       count);
  }
  io::FileManifest manifest = io::read_manifest(path);
  if (auto difference = io::first_difference(path, manifest, io::ManifestCheck::checksums))
    throw UserError(ExitCode::checkpoint,
                    {"", *difference, {"it is damaged; use an older checkpoint or another copy"}});
  std::uint64_t bytes = 0;
  for (const io::FileDigest& file : manifest.files) bytes += file.num_bytes;
  for_each_tensor(path, [](const std::string&, const io::StoredTensor&) {});
  return fmt::format("{}: {} files, {}, as they were written", path, manifest.files.size(),
                     bytes_text(static_cast<double>(bytes)));
}

// Verifies every checkpoint that still exists when its turn comes; returns those, at least one.
std::vector<std::string> verify_all(const std::string& from, const std::vector<std::string>& paths,
                                    bool json) {
  std::vector<std::string> done;
  for (const std::string& path : paths) {
    std::string line;
    try {
      line = verify_one(path);
    } catch (const std::exception&) {
      if (!model::is_gone(path)) throw;
      continue;
    }
    done.push_back(path);
    if (!json) print(line + "\n");
  }
  if (done.empty())
    throw UserError(ExitCode::checkpoint,
                    {from,
                     "its checkpoints are removed faster than they can be read",
                     {"keep more of them (checkpoint.keep), or wait until the training ends"}});
  return done;
}

int run_ckpt_verify(const Arguments& a, const Device&) {
  std::vector<std::string> paths;
  const std::vector<std::string> done = model::retry_if_removed(
      [&] {
        paths = checkpoints_of(a.positionals[0]);
        return verify_all(a.positionals[0], paths, a.flag("json"));
      },
      [&] { return !paths.empty() && std::ranges::all_of(paths, model::is_gone); });
  if (!a.flag("json")) return 0;
  JsonWriter json(2);
  json.begin_object().key("ok").value(true).key("verified").begin_array();
  for (const std::string& path : done) json.value(path);
  print(json.end_array().end_object().text() + "\n");
  return 0;
}

}  // namespace

Command ckpt_verify_command() {
  return {.name = "ckpt verify",
          .summary = "compares checkpoints with the checksums in their manifests",
          .details =
              "For a run directory, every checkpoint. Names the first file and tensor that differ "
              "and exits with 4. Directories without checksums (published models) are checked for "
              "their form and the tensors of their index.",
          .options = {json_option()},
          .positionals = {{.name = "DIR",
                           .doc = "A run directory, a checkpoint, a Hugging Face directory, an "
                                  "adapter or a GGUF file."}},
          .examples = {"lamina ckpt verify build/quickstart/run"},
          .run = run_ckpt_verify};
}

}  // namespace lamina::cli
