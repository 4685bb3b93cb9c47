// The layout of a run directory:
//
//   lock            the process that trains here now, see io/directory_lock.h
//   config.toml     every final value of the run
//   metrics.jsonl   one object per step, see train/metrics/metrics_file.h
//   metrics.superseded.jsonl   objects of steps that a resumed run repeated
//   tensorboard/    event files with train.tensorboard, see train/metrics/tensorboard_file.h
//   non-finite-step-00000012.json, spike-step-00000012.json   see train/loop/bad_step.h
//   log.txt         all messages
//   checkpoints/step-00000100/   see train/checkpoint/checkpoint.h
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

// Whole checkpoints of a run, oldest first; partial ones do not count, but those that cannot be
// read do.
std::vector<CheckpointEntry> list_checkpoints(const std::string& run);

// Returns whether `path` is one of these.
bool is_checkpoint_of(const std::string& run, const std::string& path);

// Directories that have the name of a checkpoint but no manifest, oldest first.
std::vector<CheckpointEntry> list_incomplete(const std::string& run);

// Returns the sorted paths of all directories that were checkpoints: whole or not, set aside or
// not. Only a run without any may start from scratch.
std::vector<std::string> list_all(const std::string& run);

// Renames a checkpoint to "<path>.<why>", numbered if that exists: of the lists above only
// list_all() still has it, and another checkpoint of its step can be written. Returns the new path.
// Throws DeviceError (exit 4).
std::string set_aside(const std::string& path, std::string_view why);

// Returns whether a directory has a name that set_aside() gives.
bool is_set_aside(const std::string& path);

// Returns the newest checkpoint, "" for none. `path` may also be a directory of checkpoints.
std::string newest_checkpoint(const std::string& path);

// Paths that a user may give for a model; for errors.
inline constexpr std::string_view kModelPlaces =
    "expected a Hugging Face directory, a GGUF file, a checkpoint or a run directory";

// Returns advice about a path that is a file, not a model: the folder that it is part of, if that
// is one.
std::vector<std::string> advice_on_file(const std::string& path);
// Returns advice about a path that does not exist and may be a name on the Hub.
std::vector<std::string> advice_on_missing(const std::string& path);

// Returns the directory with a model to which `path` refers: itself, the newest checkpoint in it,
// or the best one if it is RUN/checkpoints/best. If there is none, throws UserError (exit 4), which
// lists the contents of `path`.
std::string resolve_model_directory(const std::string& path);
// Likewise; returns a file, or a directory that contains a GGUF file, unchanged.
std::string resolve_model_files(const std::string& path);

}  // namespace lamina::train
