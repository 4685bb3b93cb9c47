// The layout of a run directory:
//
//   lock            who trains here now, see io/directory_lock.h
//   config.toml     every final value of the run
//   metrics.jsonl   one object per step, see train/metrics_file.h
//   metrics.superseded.jsonl   objects of steps that a run which went back did again
//   tensorboard/    event files, where train.tensorboard asks, see train/tensorboard_file.h
//   non-finite-step-00000012.json, spike-step-00000012.json   see train/bad_step.h
//   log.txt         what was said
//   checkpoints/step-00000100/   see train/checkpoint.h
//   checkpoints/step-00000100.damaged, .set-aside   no longer used; nothing removes them
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::train {

std::string checkpoints_directory(const std::string& run);
std::string checkpoint_path(const std::string& run, std::int64_t step);
std::string metrics_path(const std::string& run);
std::string superseded_metrics_path(const std::string& run);
std::string tensorboard_directory(const std::string& run);

struct CheckpointEntry {
  std::int64_t step;
  std::string path;
};

// Whole checkpoints of a run, oldest first; partial ones do not count.
std::vector<CheckpointEntry> list_checkpoints(const std::string& run);

// Directories that have the name of a checkpoint but no manifest, oldest first.
std::vector<CheckpointEntry> list_incomplete(const std::string& run);

// Every directory that was a checkpoint: whole or not, set aside or not. Sorted paths. Only a run
// without any may start from scratch.
std::vector<std::string> list_all(const std::string& run);

// Renames a checkpoint so that none of the lists above but list_all() has it and another of its
// step can be written: "<path>.<why>", numbered if that is taken. Returns the new path.
// DeviceError, exit 4.
std::string set_aside(const std::string& path, std::string_view why);

// The newest, or "" when `path` has none. `path` may also be a directory of checkpoints.
std::string newest_checkpoint(const std::string& path);

// What a user may name where a model is wanted, for errors.
inline constexpr std::string_view kModelPlaces =
    "a Hugging Face directory, a GGUF file, a checkpoint or a run directory would be right";

// The directory with a model that `path` stands for: itself, the newest checkpoint in it, or the
// best one where it is RUN/checkpoints/best.
// UserError, exit 4, says what is there instead.
std::string resolve_model_directory(const std::string& path);
// Likewise; a file, and a directory that stands for a GGUF file, are what they are.
std::string resolve_model_files(const std::string& path);

}  // namespace lamina::train
