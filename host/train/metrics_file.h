// metrics.jsonl of a run: one JSON object per line, `step` first, in the order of the steps.
//
// A line is whole or absent, also after a crash, and no step comes twice: a run that goes on from a
// checkpoint moves what the file has of later steps to metrics.superseded.jsonl.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json_writer.h"

namespace lamina::train {

// [one thread]
class MetricsFile {
 public:
  // Opens the file of `run` to go on after `step` steps. DeviceError, exit 4.
  MetricsFile(const std::string& run, std::int64_t step);
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  ~MetricsFile();

  // Appends an object. Where the disk refuses, warns and keeps it in memory, up to a bound; the
  // next calls try again, in order.
  void write(const JsonWriter& json);

  // Makes what was written survive a power failure, so that no checkpoint is ahead of the file.
  void sync();

  // Tries once more and says what could not be written.
  void finish();

 private:
  int cut();  // to the whole lines; 0, or the error
  void write_waiting();

  std::string path_;
  int fd_ = -1;
  std::uint64_t num_bytes_ = 0;  // of whole lines
  bool torn_ = false;            // part of a line may follow them
  bool failing_ = false;         // since a warning
  std::vector<std::string> waiting_;
  std::uint64_t num_dropped_ = 0;
};

}  // namespace lamina::train
