// What lies where in a run directory:
//
//   config.toml     every final value of the run
//   metrics.jsonl   one object a step
//   log.txt         what was said
//   checkpoints/step-00000100/   see train/checkpoint.h
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lamina::train {

std::string checkpoints_directory(const std::string& run);
std::string checkpoint_path(const std::string& run, std::int64_t step);
std::string metrics_path(const std::string& run);

struct CheckpointEntry {
  std::int64_t step;
  std::string path;
};

// Whole checkpoints of a run, oldest first; partial ones do not count.
std::vector<CheckpointEntry> list_checkpoints(const std::string& run);

// Renames directories that have the name of a checkpoint but are none ("step-00000100.damaged"), so
// that a checkpoint of that step can be written. Returns the new paths.
std::vector<std::string> set_aside_damaged(const std::string& run);

// The newest, or "" when `path` has none. `path` may also be a directory of checkpoints.
std::string newest_checkpoint(const std::string& path);

}  // namespace lamina::train
