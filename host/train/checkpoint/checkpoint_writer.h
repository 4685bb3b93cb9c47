// Saves checkpoints, one at a time, on a separate thread while training continues.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/snapshot.h"

namespace lamina::train {

// The result of one save.
struct SavedCheckpoint {
  std::string path;
  Progress progress;
  std::exception_ptr error;           // null: the checkpoint exists
  std::vector<std::string> problems;  // of SaveHooks::after
  double seconds = 0;                 // of writing
  double pause_seconds = 0;           // during which training waited
  std::uint64_t num_copied = 0;       // bytes that training changed before they were written
};

// Work of the writer's thread beside writing: `begin_thread` comes first, if that is a separate
// thread; then `before`; and `after` once the checkpoint has its name, which returns the problems
// of its work.
struct SaveHooks {
  std::function<void()> begin_thread = {};  // may be empty
  std::function<void()> before;
  std::function<std::vector<std::string>()> after;
};

// Saves at saved.path while the caller waits. Errors are in the result.
SavedCheckpoint save_at_once(SavedCheckpoint saved, const CheckpointContents& contents,
                             const SaveHooks& hooks) noexcept;

// [the thread that trains]
class CheckpointWriter {
 public:
  // REQUIRES: all that `contents` of start() refers to outlives this.
  explicit CheckpointWriter(TrainState& state) : state_(state) {}
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter();  // waits for the save that is under way

  // Begins to save the state as it is now; training may continue at once. REQUIRES: !busy(). Throws
  // std::system_error if no thread can be started; nothing was begun then.
  void start(const std::string& path, const CheckpointContents& contents, const Progress& progress,
             SaveHooks hooks);

  bool busy() const { return thread_.joinable(); }
  // The progress of the save under way. REQUIRES: busy().
  std::int64_t step() const { return step_; }
  std::uint64_t num_bytes() const { return snapshot_->num_bytes(); }
  std::uint64_t num_written() const { return snapshot_->num_read(); }

  // Returns the result of the save once it has ended; nothing before.
  std::optional<SavedCheckpoint> take_result();
  // Waits at most `seconds` for the end of the save. Returns true if it has ended.
  bool wait_for(double seconds);

 private:
  TrainState& state_;
  std::unique_ptr<Snapshot> snapshot_;
  std::int64_t step_ = 0;
  double start_seconds_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<SavedCheckpoint> result_;  // once it has ended
  std::thread thread_;
};

}  // namespace lamina::train
