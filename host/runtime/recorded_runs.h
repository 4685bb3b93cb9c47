// Runs of a program that its queue recorded, by the addresses of their operands: a program that
// runs again on the same memory is one call of the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "runtime/memory.h"
#include "runtime/recorder.h"

namespace lamina {

// [one thread at a time]
class RecordedRuns {
 public:
  // Runs with fewer kernel calls gain nothing from being recorded.
  static constexpr std::int64_t kFewestCalls = 4;
  // Recordings at a time. A new one replaces one that was not used in the last kIdleRuns runs, if
  // there is one.
  static constexpr std::size_t kMostRecordings = 16;
  static constexpr std::int64_t kIdleRuns = 64;

  explicit RecordedRuns(Recorder& recorder) : recorder_(recorder) {}

  // Enqueues a run whose work depends on `addresses` alone: as a replay, or by `enqueue`. The first
  // run on some addresses is not recorded, the second one is. A run within a recording is a part of
  // it.
  void run(const std::vector<Address>& addresses, const std::function<void()>& enqueue);

 private:
  struct Run {
    std::vector<Address> addresses;
    std::unique_ptr<RecordedWork> recording;  // null until the second run
    std::int64_t last = 0;                    // number of its last run
  };
  std::unique_ptr<RecordedWork> record(const std::function<void()>& enqueue);

  Recorder& recorder_;
  std::list<Run> runs_;  // the most recently used one first
  std::int64_t num_runs_ = 0;
  bool cannot_record_ = false;
};

}  // namespace lamina
