// The numbers of metrics.jsonl for TensorBoard: an event file in the folder tensorboard/ of a run.
//
// A run that goes on makes another file, which begins by saying from which step on it holds: what
// the files before it have of later steps is then dropped by TensorBoard.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "train/metrics/appended_file.h"
#include "train/metrics/metrics_record.h"

namespace lamina::train {

// A folder that cannot be written is a warning and is tried again, see AppendedFile. [one thread]
class TensorboardFile {
 public:
  // Of `run`, to go on after `step` steps.
  TensorboardFile(const std::string& run, std::int64_t step);

  void write(const MetricsRecord& record);
  std::function<void()> sync_later() const { return file_.sync_later(); }
  void finish() { file_.finish(); }

 private:
  AppendedFile file_;
};

}  // namespace lamina::train
