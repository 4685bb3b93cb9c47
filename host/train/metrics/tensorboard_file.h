// The numbers of metrics.jsonl for TensorBoard: an event file in the folder tensorboard/ of a run.
//
// A run that continues makes another file, which starts with the number of its first step:
// TensorBoard then drops that step and later ones from the files before it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "train/metrics/appended_file.h"
#include "train/metrics/metrics_record.h"

namespace lamina::train {

// If the folder cannot be written, warns and tries again, see AppendedFile. [one thread]
class TensorboardFile {
 public:
  // Opens a new file of `run`, to continue after `step` steps.
  TensorboardFile(const std::string& run, std::int64_t step);

  void write(const MetricsRecord& record);
  // If the file was removed, makes it again, to continue after `step` steps.
  void renew(std::int64_t step);
  std::function<void()> sync_later() const { return file_.sync_later(); }
  void finish() { file_.finish(); }

 private:
  AppendedFile file_;
};

}  // namespace lamina::train
