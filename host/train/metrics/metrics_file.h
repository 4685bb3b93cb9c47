// metrics.jsonl of a run: one JSON object per line, `step` first, in the order of the steps.
//
// A line is whole or absent, also after a crash, and no step comes twice: a run that continues from
// a checkpoint moves the lines of later steps to metrics.superseded.jsonl.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/json_writer.h"
#include "train/metrics/appended_file.h"

namespace lamina::train {

// [one thread]
class MetricsFile {
 public:
  // Opens the file of `run` to continue after `step` steps. Throws DeviceError (exit 4).
  MetricsFile(const std::string& run, std::int64_t step);

  // Returns whether the file had the samples of `step` when it was opened.
  bool had_samples() const { return had_samples_; }

  // Appends an object, or keeps it until the disk takes it: see AppendedFile.
  void write(const JsonWriter& json) { file_.write(json.text() + "\n"); }

  // If the file was removed or replaced, later lines are in the one with its name: see
  // AppendedFile.
  void renew() { file_.renew(); }

  // See AppendedFile. Called before a checkpoint is written, so that none is ahead of the file.
  std::function<void()> sync_later() const { return file_.sync_later(); }

  // Tries once more and logs a warning about lines that could not be written.
  void finish() { file_.finish(); }

 private:
  bool had_samples_ = false;
  AppendedFile file_;
};

}  // namespace lamina::train
