#include "train/loop/resumption.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <ranges>

#include "config/listing.h"
#include "io/weight_files.h"
#include "train/checkpoint/best_checkpoint.h"
#include "train/loop/run_directory.h"

namespace lamina::train {
namespace {

namespace fs = std::filesystem;

std::string checkpoint_at(const std::string& named) {
  const std::string path = resolve_best(named);
  if (!fs::is_directory(path))
    throw UserError(ExitCode::checkpoint,
                    {path,
                     fmt::format("{}; expected a checkpoint or a run directory",
                                 fs::exists(path) ? "is not a directory" : "no such directory"),
                     {"other values of --resume are auto and none"}});
  std::string out = resolve_model_directory(path);
  if (!io::has_weight_set(out, "optimizer"))
    throw UserError(ExitCode::checkpoint,
                    {out, "contains no optimizer state, so training cannot resume from it", {}});
  return out;
}

std::string text_of(const io::Damaged& damage) {
  const ErrorText& text = damage.text();
  return text.where.empty() ? text.what : text.where + ": " + text.what;
}

std::int64_t steps_done(const std::string& checkpoint) {
  return io::read_manifest(checkpoint).info().at("step").as_int64();
}

bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code ec;
  return fs::equivalent(a, b, ec);
}

}  // namespace

config::RunConfig load_written_run(const std::string& path) {
  return as_damage([&] { return config::load_written_run(path); });
}

config::RunConfig load_moved_run(const std::string& path) {
  const fs::path folder = fs::canonical(path).parent_path();
  fs::path run;
  if (fs::path(path).filename() == "config.toml")
    run = folder;
  else if (folder.parent_path().filename() == "checkpoints")
    run = folder.parent_path().parent_path();
  return as_damage([&] { return config::load_written_run(path, run.string()); });
}

std::string likely_checkpoint(const std::string& resume, const std::string& run) {
  if (resume == "none") return "";
  if (resume != "auto") return checkpoint_at(resume);
  for (const CheckpointEntry& entry : list_checkpoints(run) | std::views::reverse) {
    try {
      check_structure(entry.path);
      return entry.path;
    } catch (const io::Damaged&) {  // the run reports it
    }
  }
  return "";
}

Resumption::Resumption(const std::string& resume, std::string run, const std::string& run_file)
    : automatic_(resume == "auto"),
      run_(std::move(run)),
      now_(config::parse_run(run_file, run_ + "/config.toml")) {
  const bool any = !list_all(run_).empty();
  if (resume == "none" && any)
    throw UserError(
        ExitCode::usage,
        {run_,
         "has checkpoints of an earlier run, which --resume none would mix with new ones",
         {"choose another --out, or --resume auto"}});
  if (automatic_)
    for (const CheckpointEntry& entry : list_checkpoints(run_)) candidates_.push_back(entry.path);
  else if (resume != "none")
    candidates_.push_back(checkpoint_at(resume));
  if (automatic_ && candidates_.empty() && any) fail_none_usable();
  pass_over_damaged();
  check_work_is_left();
}

void Resumption::pass_over_damaged() {
  while (!candidates_.empty()) {
    try {
      check_structure(candidates_.back());
      check_same_run(candidates_.back());
      return;
    } catch (const io::Damaged& damage) {
      pass_over(damage);
    }
  }
}

void Resumption::pass_over(const io::Damaged& damage) {
  if (!automatic_) {
    ErrorText text = damage.text();
    text.notes = {"the checkpoint is damaged; resume from an older one with --resume PATH"};
    throw UserError(ExitCode::checkpoint, std::move(text));
  }
  passed_over_.push_back({candidates_.back(), text_of(damage)});
  candidates_.pop_back();
  if (candidates_.empty()) fail_none_usable();
}

void Resumption::fail_none_usable() const {
  std::vector<std::string> notes;
  for (const std::string& path : list_all(run_)) {
    const auto damaged = std::ranges::find(passed_over_, path, &PassedOver::path);
    if (damaged != passed_over_.end())
      notes.push_back(damaged->problem);
    else if (fs::path(path).has_extension())
      notes.push_back(path + ": was set aside");
    else
      notes.push_back(fmt::format("{}: has no {}", path, io::kManifestName));
  }
  notes.push_back(
      "bring one back from a copy, give another with --resume PATH, or start again with another "
      "--out");
  throw UserError(ExitCode::checkpoint,
                  {run_, "has checkpoints, but none is complete", std::move(notes)});
}

// Throws UserError if keys that shape a run have changed; lists changed hot keys in changes_.
void Resumption::check_same_run(const std::string& checkpoint) {
  changes_.clear();
  const config::RunConfig before = load_written_run(checkpoint + "/run.toml");
  std::vector<std::string> notes;
  for (const config::Difference& d : config::differences(before, now_, is_own(checkpoint))) {
    const std::string was = d.before.empty() ? "absent" : d.before,
                      is = d.now.empty() ? "absent" : d.now;
    if (d.hot)
      changes_.push_back(fmt::format("{} is {} now, it was {}", d.key, is, was));
    else
      notes.push_back(fmt::format("{} was {} and is {} now", d.key, was, is));
  }
  if (notes.empty()) return;
  notes.push_back("continue with the old values, or start a new run with another --out");
  throw UserError(ExitCode::usage,
                  {checkpoint, "belongs to a run with other settings", std::move(notes)});
}

void Resumption::load(Loop& loop) {
  while (!candidates_.empty()) {
    try {
      loop.resume(candidates_.back());
      step_ = loop.progress().step;
      break;
    } catch (const io::Damaged& damage) {
      pass_over(damage);
    }
    pass_over_damaged();
  }
}

// True if the checkpoint is in the directory of this run.
bool Resumption::is_own(const std::string& checkpoint) const {
  std::error_code ec;
  return is_same(fs::canonical(checkpoint, ec).parent_path(), checkpoints_directory(run_));
}

// Without a step the run would only copy the checkpoint, and set its own ones aside for that.
void Resumption::check_work_is_left() const {
  if (automatic_ || candidates_.empty() || is_checkpoint_of(run_, checkpoint())) return;
  const std::int64_t step = steps_done(checkpoint());
  if (step < now_.train.steps) return;
  throw UserError(ExitCode::usage,
                  {checkpoint(),
                   fmt::format("is at step {}, and 'train.steps' is {}: there is nothing to train",
                               step, now_.train.steps),
                   {"raise train.steps, or use this checkpoint as it is"}});
}

// Whole checkpoints of this run that are newer than the loaded one, newest first; all of them if
// that one belongs to another run.
std::vector<std::string> Resumption::in_the_way() const {
  const bool own = is_own(checkpoint());
  std::vector<std::string> out;
  for (const CheckpointEntry& entry : list_checkpoints(run_))
    if (!is_same(entry.path, checkpoint()) && (!own || entry.step >= step_))
      out.push_back(entry.path);
  std::ranges::reverse(out);
  return out;
}

std::vector<std::string> Resumption::set_aside() const {
  std::vector<std::string> warnings;
  for (const PassedOver& damaged : passed_over_)
    warnings.push_back(fmt::format(
        "a checkpoint is damaged, so training continues from {}: {}\n  it was renamed to {}; check "
        "it and remove it",
        checkpoint(), damaged.problem, train::set_aside(damaged.path, "damaged")));
  for (const CheckpointEntry& entry : list_incomplete(run_))
    warnings.push_back(
        fmt::format("{} has no {}, so it is not a complete checkpoint; check it and remove it",
                    train::set_aside(entry.path, "damaged"), io::kManifestName));
  if (automatic_ || candidates_.empty()) return warnings;
  for (const std::string& path : in_the_way())
    warnings.push_back(
        fmt::format("{} would be in the way of a run from {}, so it was renamed to {}; remove it "
                    "if you do not need it",
                    path, checkpoint(), train::set_aside(path, "set-aside")));
  return warnings;
}

}  // namespace lamina::train
