#include "train/checkpoint/best_checkpoint.h"

#include <filesystem>

#include "core/error.h"
#include "io/directories.h"
#include "io/manifest.h"
#include "train/loop/run_directory.h"

namespace lamina::train {
namespace {

namespace fs = std::filesystem;

std::optional<double> validation_loss(const std::string& checkpoint) {
  try {
    const io::FileManifest manifest = io::read_manifest(checkpoint);
    if (const JsonValue loss = manifest.info().find(kValidationLossKey)) return loss.as_double();
  } catch (const Error&) {  // damaged, or removed meanwhile
  }
  return std::nullopt;
}

}  // namespace

std::optional<BestCheckpoint> best_checkpoint(const std::string& run) {
  std::optional<BestCheckpoint> out;
  for (const CheckpointEntry& entry : list_checkpoints(run))
    if (const auto loss = validation_loss(entry.path); loss && (!out || *loss < out->loss))
      out = {entry.path, *loss};
  return out;
}

std::string resolve_best(const std::string& path) {
  const fs::path named = io::trimmed_path(path), checkpoints = named.parent_path();
  if (named.filename() != "best" || checkpoints.filename() != "checkpoints" || fs::exists(path) ||
      !fs::is_directory(checkpoints))
    return path;
  const fs::path run = checkpoints.parent_path();
  if (const auto best = best_checkpoint(run.empty() ? "." : run.string())) return best->path;
  throw UserError(ExitCode::checkpoint,
                  {path,
                   "no checkpoint here was validated, so none is the best",
                   {"train with checkpoint.keep_best = true and validation data, or name one of "
                    "`lamina ckpt ls`"}});
}

}  // namespace lamina::train
