// Which checkpoint a training run goes on from, and what is set aside for that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "io/manifest.h"
#include "train/loop/loop.h"

namespace lamina::train {

// A run file that training wrote: whatever is wrong with it is exit 4, not a mistake of the user's.
config::RunConfig load_written_run(const std::string& path);

// The checkpoint that a run with this --resume will most likely go on from, "" for none: what is
// needed to describe its model before anything else is known of it. Errors: as Resumption.
std::string likely_checkpoint(const std::string& resume, const std::string& run);

//   Resumption from("auto", "runs/first", run_file);
//   from.load(loop);
//   for (const std::string& change : from.changes()) log::info("{}", change);
//   for (const std::string& warning : from.set_aside()) log::warning("{}", warning);
//
// Nothing in the run directory is changed before set_aside(). REQUIRES: its lock is held.
class Resumption {
 public:
  // `resume` is "auto", "none" or a checkpoint; `run_file` the resolved run file of the run as it
  // is asked for now. UserError: exit 2 where settings that shape a run differ from the
  // checkpoint's, or "none" finds checkpoints; exit 4 where there are checkpoints but none can be
  // used.
  Resumption(const std::string& resume, std::string run, const std::string& run_file);

  // "" to start from scratch. Its files are whole but for the values of tensors.
  std::string checkpoint() const { return candidates_.empty() ? "" : candidates_.back(); }

  // Loads it. With "auto" a damaged one is passed over for the one before. Errors: as the
  // constructor, and those of Loop::resume().
  void load(Loop& loop);

  // Settings that differ from the checkpoint's and may.
  const std::vector<std::string>& changes() const { return changes_; }

  // Renames checkpoints that were passed over or that later ones would run into, and returns what
  // to say about each. Call it after load().
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
  [[noreturn]] void fail_none_usable() const;

  bool automatic_;
  std::string run_;
  config::RunConfig now_;
  std::vector<std::string> candidates_;  // the best one last
  std::int64_t step_ = 0;                // of the one that was loaded
  std::vector<PassedOver> passed_over_;
  std::vector<std::string> changes_;
};

}  // namespace lamina::train
