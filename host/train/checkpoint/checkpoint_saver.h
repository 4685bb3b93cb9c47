// How a run gets its checkpoints: written while it goes on, tried again where the disk refuses, and
// waited for at its end.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "config/sections.h"
#include "train/checkpoint/checkpoint_writer.h"

namespace lamina::train {

// What the saver tells. [the thread that trains, where nothing else is said]
struct SaveEvents {
  struct Waiting {
    std::int64_t step = 0;  // of the checkpoint that is written
    std::uint64_t num_written = 0, num_bytes = 0;
  };
  std::function<void(const SavedCheckpoint&)> checkpoint;
  std::function<void(const Waiting&)> waiting;  // once a second
  // Called on the thread that writes, before anything else: it has been given the CPUs of the one
  // that trains, which may be pinned to one. [the thread that writes]
  std::function<void()> begin_thread;
};

// [the thread that trains]
class CheckpointSaver {
 public:
  // Of `num_steps` steps into the run directory `out`. REQUIRES: what `contents` refers to outlives
  // this.
  CheckpointSaver(const CheckpointContents& contents, TrainState& state,
                  const config::CheckpointSection& options, std::string out,
                  std::int64_t num_steps);

  // In place of those of the contents. REQUIRES: they outlive this, and nothing is being saved.
  void set_side_files(std::span<const SideFile> files) { contents_.side_files = files; }

  // The state is that of a checkpoint.
  void loaded(const Progress& progress) { last_saved_ = progress.step; }

  // After the interval, where an earlier one failed, or where no validation before was as good.
  bool is_due(const Progress& progress) const;

  // Saves the state as it is now, in the background unless the options say otherwise; waits first
  // for the one before. `before` is called on the writer's thread. What the disk has against it is
  // a warning, once it is known, and the checkpoint is due again some steps later.
  void save(const Progress& progress, std::function<void()> before, const SaveEvents& events);
  // After every step: what became of the checkpoint under way.
  void look(std::int64_t step, const SaveEvents& events);
  // As save() at the end of a run: tries a few times, waits, and throws what the disk has against
  // it.
  void save_last(const Progress& progress, const std::function<void()>& before,
                 const SaveEvents& events);

 private:
  bool is_best(const Progress& progress) const;
  // False where there can be no thread.
  bool start(const Progress& progress, const SaveHooks& hooks);
  SaveHooks hooks(std::function<void()> before, const SaveEvents& events) const;
  SavedCheckpoint save_here(const Progress& progress, const SaveHooks& hooks) const;
  std::string path_of(const Progress& progress) const;
  // For the checkpoint under way, if there is one.
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
  CheckpointWriter writer_;
};

}  // namespace lamina::train
