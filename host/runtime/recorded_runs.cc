#include "runtime/recorded_runs.h"

#include <algorithm>

#include "core/error.h"

namespace lamina {

// Returns null if the work cannot be recorded, or no more may be; then it has not run.
std::unique_ptr<RecordedWork> RecordedRuns::record(const std::function<void()>& enqueue) {
  // The recording that was not used for the longest time, if there are as many as may be.
  const auto is_recorded = [](const Run& run) { return run.recording != nullptr; };
  std::unique_ptr<RecordedWork>* old = nullptr;
  if (static_cast<std::size_t>(std::ranges::count_if(runs_, is_recorded)) >= kMostRecordings) {
    const auto oldest = std::find_if(runs_.rbegin(), runs_.rend(), is_recorded);
    if (num_runs_ - oldest->last < kIdleRuns) return nullptr;
    old = &oldest->recording;
  }
  recorder_.begin_recording();
  try {
    enqueue();
  } catch (const DeviceError&) {
    // A call that is not allowed while work is recorded. Other errors occur again without.
    recorder_.drop_recording();
    cannot_record_ = true;
    return nullptr;
  } catch (...) {
    recorder_.drop_recording();
    throw;
  }
  std::unique_ptr<RecordedWork> recording =
      recorder_.end_recording(old ? std::move(*old) : nullptr);
  cannot_record_ = !recording;
  return recording;
}

void RecordedRuns::run(const std::vector<Address>& addresses,
                       const std::function<void()>& enqueue) {
  if (recorder_.is_recording()) return enqueue();
  ++num_runs_;
  const auto found = std::ranges::find(runs_, addresses, &Run::addresses);
  if (found == runs_.end()) {
    runs_.push_front({addresses, nullptr, num_runs_});
    if (runs_.size() > static_cast<std::size_t>(kIdleRuns)) runs_.pop_back();
    return enqueue();
  }
  runs_.splice(runs_.begin(), runs_, found);
  found->last = num_runs_;
  if (!found->recording && !cannot_record_) found->recording = record(enqueue);
  if (!found->recording) return enqueue();
  recorder_.replay(*found->recording);
}

}  // namespace lamina
