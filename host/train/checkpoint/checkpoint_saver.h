// Saves the checkpoints of a run: in the background while training continues, again if the disk
// refuses one, and waits for the last one at the end of the run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/sections.h"
#include "train/checkpoint/checkpoint_writer.h"

namespace lamina::train {

// Reports of the saver. [the thread that trains, unless another one is named]
struct SaveEvents {
  struct Waiting {
    std::int64_t step = 0;  // of the checkpoint being written
    std::uint64_t num_written = 0, num_bytes = 0;
  };
  std::function<void(const SavedCheckpoint&)> checkpoint;
  std::function<void(const Waiting&)> waiting;  // once a second
  // Called on the thread that writes, before anything else: that thread inherits the CPUs of the
  // one that trains, which may be pinned to a single CPU. [the thread that writes]
  std::function<void()> begin_thread;
};

// [the thread that trains]
class CheckpointSaver {
 public:
  // Saves a run of `num_steps` steps in its directory `out`. REQUIRES: all that `contents` refers
  // to outlives this.
  CheckpointSaver(const CheckpointContents& contents, TrainState& state,
                  const config::CheckpointSection& options, std::string out,
                  std::int64_t num_steps);

  // Replaces the contents' side files. REQUIRES: they outlive this, and nothing is being saved.
  void set_side_files(std::span<const SideFile> files) { contents_.side_files = files; }

  // Records that the state was loaded from a checkpoint of this run.
  void loaded(const Progress& progress) { last_saved_ = progress.step; }

  // True after the interval, to repeat a failed save, and after the best validation so far.
  bool is_due(const Progress& progress) const;

  // Saves the state as it is now, in the background unless the options forbid it. First waits for
  // the previous save. `before` is called on the writer's thread. An error of the disk is logged as
  // a warning once it is known, and the checkpoint is due again some steps later.
  void save(const Progress& progress, std::function<void()> before, const SaveEvents& events);
  // Reports the save under way if it has ended. Call it after every step.
  void look(std::int64_t step, const SaveEvents& events);
  // As save(), for the end of a run: waits, tries a few times, and throws the last error of the
  // disk.
  void save_last(const Progress& progress, const std::function<void()>& before,
                 const SaveEvents& events);

 private:
  bool is_best(const Progress& progress) const;
  // Returns false if no thread can be started.
  bool start(const Progress& progress, const SaveHooks& hooks);
  SaveHooks hooks(std::function<void()> before, const SaveEvents& events) const;
  SavedCheckpoint save_here(const Progress& progress, const SaveHooks& hooks) const;
  std::string path_of(const Progress& progress) const;
  // Waits for the checkpoint under way, if there is one.
  std::optional<SavedCheckpoint> wait(const SaveEvents& events);
  void tell(const SavedCheckpoint& saved, const SaveEvents& events);
  void take(const SavedCheckpoint& saved, std::int64_t step, const SaveEvents& events);

  CheckpointContents contents_;
  const config::CheckpointSection& options_;
  std::string out_;
  std::int64_t num_steps_;
  std::int64_t last_saved_ = -1;
  std::int64_t retry_at_ = -1;  // the step after which a checkpoint is tried again
  std::int64_t retry_steps_ = 1;
  std::vector<std::string> problems_;  // of the last save, reported
  CheckpointWriter writer_;
};

}  // namespace lamina::train
