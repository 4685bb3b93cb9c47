#include "train/checkpoint/best_checkpoint.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "io/directories.h"
#include "io/manifest.h"
#include "train/loop/run_directory.h"

namespace lamina::train {
namespace {

namespace fs = std::filesystem;

struct ValidatedCheckpoint {
  BestCheckpoint checkpoint;
  std::uint64_t num_rows = 0;  // 0: unknown, in manifests of earlier versions
};

std::optional<ValidatedCheckpoint> read_validation(const std::string& checkpoint) {
  try {
    const io::FileManifest manifest = io::read_manifest(checkpoint);
    const JsonValue loss = manifest.info().find(kValidationLossKey),
                    rows = manifest.info().find(kValidationRowsKey);
    if (loss)
      return ValidatedCheckpoint{{checkpoint, loss.as_double()}, rows ? rows.as_uint64() : 0};
  } catch (const io::Damaged&) {
  } catch (const UserError&) {
    // Unless it was removed meanwhile, it may be the best one, and must not seem to be none.
    std::error_code ec;
    if (fs::exists(fs::path(checkpoint) / io::kManifestName, ec) || ec) throw;
  }
  return std::nullopt;
}

}  // namespace

std::optional<BestCheckpoint> best_checkpoint(const std::string& run,
                                              std::optional<std::uint64_t> num_rows,
                                              std::vector<UnreadCheckpoint>* unread) {
  std::vector<ValidatedCheckpoint> all;
  for (const CheckpointEntry& entry : list_checkpoints(run)) try {
      if (auto found = read_validation(entry.path)) all.push_back(*std::move(found));
    } catch (const UserError& error) {
      if (!unread) throw;
      unread->push_back({entry.path, error.what()});
    }
  std::optional<BestCheckpoint> out;
  for (const ValidatedCheckpoint& v : all) {
    const std::uint64_t wanted = num_rows.value_or(all.back().num_rows);
    const bool is_comparable = v.num_rows == 0 || wanted == 0 || v.num_rows == wanted;
    if (is_comparable && (!out || v.checkpoint.loss < out->loss)) out = v.checkpoint;
  }
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
