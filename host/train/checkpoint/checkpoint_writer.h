// Saves checkpoints on a thread of its own while training goes on, one at a time.
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

// What became of one save.
struct SavedCheckpoint {
  std::string path;
  Progress progress;
  std::exception_ptr error;           // null: the checkpoint is there
  std::vector<std::string> problems;  // with what `after` had to do, see start()
  double seconds = 0;                 // of writing
  double pause_seconds = 0;           // that training waited for it
  std::uint64_t num_copied = 0;       // bytes that training changed before they were written
};

// What is done on the writer's thread beside writing: `begin_thread` first of all where that is a
// thread of its own, `before`, and once the checkpoint has its name `after`, which returns what
// went wrong with its own work.
struct SaveHooks {
  std::function<void()> begin_thread = {};  // may be empty
  std::function<void()> before;
  std::function<std::vector<std::string>()> after;
};

// Saves at saved.path while the caller waits. What goes wrong is in the result.
SavedCheckpoint save_at_once(SavedCheckpoint saved, const CheckpointContents& contents,
                             const SaveHooks& hooks) noexcept;

// [the thread that trains]
class CheckpointWriter {
 public:
  // All that `contents` of start() refers to must outlive this.
  explicit CheckpointWriter(TrainState& state) : state_(state) {}
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  ~CheckpointWriter();  // waits for the save that is under way

  // Begins to save the state as it is now; training may go on at once. REQUIRES: !busy(). Throws
  // std::system_error where there can be no thread: nothing was begun.
  void start(const std::string& path, const CheckpointContents& contents, const Progress& progress,
             SaveHooks hooks);

  bool busy() const { return thread_.joinable(); }
  // Of the save under way: how far it is. REQUIRES: busy().
  std::int64_t step() const { return step_; }
  std::uint64_t num_bytes() const { return snapshot_->num_bytes(); }
  std::uint64_t num_written() const { return snapshot_->num_read(); }

  // The result of the save, once it has ended; nothing before.
  std::optional<SavedCheckpoint> take_result();
  // Waits up to so long for the end of the save. True if it has ended.
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
