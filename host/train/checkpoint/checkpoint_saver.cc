#include "train/checkpoint/checkpoint_saver.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "train/checkpoint/best_checkpoint.h"
#include "train/loop/run_directory.h"

namespace lamina::train {
namespace {

// Runs `action`, which writes to the disk, and returns the text of a disk error; "" if it
// succeeded.
template <typename Action>
std::string disk_problem(const Action& action) {
  try {
    action();
    return "";
  } catch (const Error& e) {
    // A lack of memory to map a file that was just written may pass, like a full disk.
    if (e.code() != ExitCode::checkpoint && e.code() != ExitCode::memory) throw;
    return e.what();
  } catch (const std::filesystem::filesystem_error& e) {
    return e.what();
  }
}

void throw_error(const SavedCheckpoint& saved) {
  if (saved.error) std::rethrow_exception(saved.error);
}

}  // namespace

CheckpointSaver::CheckpointSaver(const CheckpointContents& contents, TrainState& state,
                                 const config::CheckpointSection& options, std::string out,
                                 std::int64_t num_steps)
    : contents_(contents),
      options_(options),
      out_(std::move(out)),
      num_steps_(num_steps),
      writer_(state) {}

bool CheckpointSaver::is_due(const Progress& progress) const {
  const std::int64_t every = options_.every_steps;
  return (every > 0 && progress.step % every == 0) || progress.step == retry_at_ ||
         is_best(progress);
}

bool CheckpointSaver::is_best(const Progress& progress) const {
  if (!options_.keep_best || !progress.validation_loss) return false;
  std::optional<BestCheckpoint> best;
  std::vector<UnreadCheckpoint> unread;  // may stay so for the rest of the run
  const std::string problem =
      disk_problem([&] { best = best_checkpoint(out_, progress.validation_rows, &unread); });
  // If none can be read now, one checkpoint too many does no harm.
  return !problem.empty() || !best || *progress.validation_loss < best->loss;
}

SaveHooks CheckpointSaver::hooks(std::function<void()> before, const SaveEvents& events) const {
  return {.begin_thread = events.begin_thread, .before = std::move(before), .after = [this] {
            if (contents_.guard) contents_.guard();
            std::vector<std::string> problems;
            const std::string problem = disk_problem([&] {
              problems = remove_old_checkpoints(out_, options_.keep, options_.keep_best);
            });
            if (!problem.empty()) problems.push_back(problem);
            return problems;
          }};
}

SavedCheckpoint CheckpointSaver::save_here(const Progress& progress, const SaveHooks& hooks) const {
  return save_at_once({.path = path_of(progress), .progress = progress}, contents_, hooks);
}

std::string CheckpointSaver::path_of(const Progress& progress) const {
  return checkpoint_path(out_, progress.step);
}

bool CheckpointSaver::start(const Progress& progress, const SaveHooks& hooks) {
  if (!options_.async) return false;
  try {
    writer_.start(path_of(progress), contents_, progress, hooks);
    return true;
  } catch (const std::system_error& e) {
    log::warning(
        "training waits for the checkpoint of step {}: no thread can be started to write it: {}",
        progress.step, e.what());
    return false;
  }
}

void CheckpointSaver::save(const Progress& progress, std::function<void()> before,
                           const SaveEvents& events) {
  if (const auto earlier = wait(events)) take(*earlier, progress.step, events);
  if (last_saved_ == progress.step) return;
  retry_at_ = -1;  // this is the attempt
  const SaveHooks hooks = this->hooks(std::move(before), events);
  if (!start(progress, hooks)) take(save_here(progress, hooks), progress.step, events);
}

void CheckpointSaver::look(std::int64_t step, const SaveEvents& events) {
  if (const auto saved = writer_.take_result()) take(*saved, step, events);
}

std::optional<SavedCheckpoint> CheckpointSaver::wait(const SaveEvents& events) {
  constexpr double kTellSeconds = 1;
  while (writer_.busy() && !writer_.wait_for(kTellSeconds))
    if (events.waiting)
      events.waiting({writer_.step(), writer_.num_written(), writer_.num_bytes()});
  return writer_.take_result();
}

void CheckpointSaver::tell(const SavedCheckpoint& saved, const SaveEvents& events) {
  last_saved_ = saved.progress.step;
  retry_at_ = -1;
  retry_steps_ = 1;
  if (events.checkpoint) events.checkpoint(saved);
  for (const std::string& problem : saved.problems)
    if (std::ranges::find(problems_, problem) == problems_.end())
      log::warning("an old checkpoint stays, its removal is tried again after the next one: {}",
                   problem);
  problems_ = saved.problems;
}

void CheckpointSaver::take(const SavedCheckpoint& saved, std::int64_t step,
                           const SaveEvents& events) {
  constexpr std::int64_t kMaxRetrySteps = 64;
  const std::string problem = disk_problem([&] { throw_error(saved); });
  if (problem.empty()) return tell(saved, events);
  retry_at_ = std::min(step + retry_steps_, num_steps_);
  if (const std::int64_t every = options_.every_steps; every > 0)
    retry_at_ = std::min(retry_at_, (step / every + 1) * every);
  retry_steps_ = std::min(2 * retry_steps_, kMaxRetrySteps);
  log::warning("no checkpoint of step {}, training continues and tries again after step {}: {}",
               saved.progress.step, retry_at_, problem);
}

void CheckpointSaver::save_last(const Progress& progress, const std::function<void()>& before,
                                const SaveEvents& events) {
  // Network file systems fail for moments; the work of a whole run is worth two seconds.
  constexpr int kMoreAttempts = 2;
  constexpr std::chrono::seconds kPause{1};
  if (const auto earlier = wait(events)) {
    const std::string problem = disk_problem([&] { throw_error(*earlier); });
    if (problem.empty())
      tell(*earlier, events);
    else
      log::warning("no checkpoint of step {}: {}", earlier->progress.step, problem);
  }
  std::error_code ec;  // the run directory may have been removed since
  if (last_saved_ == progress.step && std::filesystem::exists(path_of(progress), ec)) return;
  const SaveHooks hooks = this->hooks(before, events);
  for (int attempt = 0;; ++attempt) {
    const SavedCheckpoint saved =
        start(progress, hooks) ? *wait(events) : save_here(progress, hooks);
    if (!saved.error) return tell(saved, events);
    if (attempt == kMoreAttempts) throw_error(saved);
    log::warning("the checkpoint of step {} failed and is tried again in a second: {}",
                 progress.step, disk_problem([&] { throw_error(saved); }));
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace lamina::train
