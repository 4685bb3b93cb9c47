#include "train/checkpoint/checkpoint_writer.h"

#include <chrono>

#include "core/log.h"
#include "core/stopwatch.h"

namespace lamina::train {

SavedCheckpoint save_at_once(SavedCheckpoint out, const CheckpointContents& contents,
                             const SaveHooks& hooks) noexcept {
  const Stopwatch watch;
  try {
    hooks.before();
    save_checkpoint(out.path, contents, out.progress);
  } catch (...) {
    out.error = std::current_exception();
  }
  if (contents.snapshot) contents.snapshot->close();
  out.seconds = out.pause_seconds = watch.seconds();
  try {
    if (!out.error) out.problems = hooks.after();
  } catch (...) {  // the next checkpoint tries again
  }
  return out;
}

CheckpointWriter::~CheckpointWriter() {
  if (!busy()) return;
  thread_.join();
  // Training ended by another error, so no caller takes this result.
  if (result_->error) log::warning("the checkpoint of step {} could not be written", step_);
}

void CheckpointWriter::start(const std::string& path, const CheckpointContents& contents,
                             const Progress& progress, SaveHooks hooks) {
  LAMINA_ASSERT(!busy());
  const Stopwatch watch;
  snapshot_ = std::make_unique<Snapshot>(contents.model.parameters(), state_);
  step_ = progress.step;
  result_.reset();
  CheckpointContents now = contents;
  now.snapshot = snapshot_.get();
  try {
    SavedCheckpoint saved{.path = path, .progress = progress};
    thread_ =
        std::thread([this, saved = std::move(saved), now, hooks = std::move(hooks)]() mutable {
          if (hooks.begin_thread) hooks.begin_thread();
          saved = save_at_once(std::move(saved), now, hooks);
          std::lock_guard lock(mutex_);
          result_ = std::move(saved);
          changed_.notify_all();
        });
  } catch (...) {
    snapshot_.reset();
    throw;
  }
  start_seconds_ = watch.seconds();
}

bool CheckpointWriter::wait_for(double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                           [&] { return result_.has_value(); });
}

std::optional<SavedCheckpoint> CheckpointWriter::take_result() {
  if (!busy() || !wait_for(0)) return std::nullopt;
  thread_.join();
  SavedCheckpoint out = *std::move(result_);
  out.pause_seconds = start_seconds_ + snapshot_->pause_seconds();
  out.num_copied = snapshot_->num_copied();
  snapshot_.reset();
  return out;
}

}  // namespace lamina::train
