// Chooses the checkpoint from which a training run continues, and sets others aside for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "io/manifest.h"
#include "train/loop/loop.h"

namespace lamina::train {

// Reads a run file that training wrote: a mistake in it is damage (exit 4), not the user's error.
config::RunConfig load_written_run(const std::string& path);
// Likewise, from a run directory or a checkpoint in it: files that are gone are looked for at their
// place relative to the run directory, which may have been moved with them.
config::RunConfig load_moved_run(const std::string& path);

// Returns the checkpoint from which a run with this --resume will most likely continue, "" for
// none. The model of the run is described from it before anything is loaded. Errors: as Resumption.
std::string likely_checkpoint(const std::string& resume, const std::string& run);

//   Resumption from("auto", "runs/first", run_file);
//   from.load(loop);
//   for (const std::string& change : from.changes()) log::info("{}", change);
//   for (const std::string& warning : from.set_aside()) log::warning("{}", warning);
//
// Nothing in the run directory is changed before set_aside(). REQUIRES: its lock is held, unless it
// is only constructed.
class Resumption {
 public:
  // `resume` is "auto", "none" or a checkpoint; `run_file` is the resolved run file of the run as
  // it is requested now. Throws UserError: exit 2 if settings that shape a run differ from the
  // checkpoint's, if `resume` is "none" and there are checkpoints, or if it is a checkpoint of
  // another run, or one that was set aside, and no steps are left; exit 4 if there are checkpoints
  // but none can be used.
  Resumption(const std::string& resume, std::string run, const std::string& run_file);

  // "" to start from scratch. The files are checked, except for the values of tensors.
  std::string checkpoint() const { return candidates_.empty() ? "" : candidates_.back(); }

  // Loads the checkpoint. With "auto", tries the one before if it is damaged. Throws as the
  // constructor and Loop::resume() do.
  void load(Loop& loop);

  // Settings that differ from the checkpoint's, and may differ.
  const std::vector<std::string>& changes() const { return changes_; }

  // Renames checkpoints that are damaged or in the way of new ones, and returns a warning about
  // each. Call it after load().
  std::vector<std::string> set_aside() const;

 private:
  struct PassedOver {
    std::string path;
    std::string problem;
  };
  void pass_over_damaged();
  void pass_over(const io::Damaged& damage);
  void check_same_run(const std::string& checkpoint);
  std::vector<std::string> in_the_way() const;
  bool is_own(const std::string& checkpoint) const;
  void check_work_is_left() const;
  [[noreturn]] void fail_none_usable() const;

  bool automatic_;
  std::string run_;
  config::RunConfig now_;
  std::vector<std::string> candidates_;  // the best one last
  std::int64_t step_ = 0;                // of the loaded checkpoint
  std::vector<PassedOver> passed_over_;
  std::vector<std::string> changes_;
};

}  // namespace lamina::train
