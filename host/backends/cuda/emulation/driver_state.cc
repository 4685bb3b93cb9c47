#include "backends/cuda/emulation/driver_state.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "backends/cuda/emulation/grid.h"
#include "core/error.h"

namespace lamina::cuda::emulation {
namespace {

template <typename Handle>
bool is_known(const std::set<Handle>& handles, Handle handle) {
  const std::lock_guard lock(DriverState::instance().mutex);
  return handles.contains(handle);
}
// Waits for reset_gpu(); then the work has failed.
void hang(int gpu) {
  DriverState& driver = DriverState::instance();
  {
    std::unique_lock lock(driver.mutex);
    driver.hangs = true;
    driver.changed.wait(lock, [&] { return !driver.hangs; });
  }
  driver.fail(gpu, DriverResult::launch_timeout, "");
}

// Work of a failed GPU does nothing.
void do_work(int gpu, const std::function<void()>& work) {
  DriverState& driver = DriverState::instance();
  if (driver.has_failed(gpu)) return;
  if (driver.is_fault(gpu, FaultPlace::work))
    return driver.fail(gpu, driver.gpu(gpu).next_failure, "");
  if (driver.is_fault(gpu, FaultPlace::hang)) return hang(gpu);
  try {
    work();
  } catch (const Error& e) {
    driver.fail(gpu, DriverResult::launch_failed, (e.text().where + ": " + e.text().what).c_str());
  }
}

}  // namespace

std::size_t memory_bytes(int gpu) {
  static const std::vector<std::size_t> bytes = [] {
    std::vector<std::size_t> out;
    constexpr const char* kVariable = "LAMINA_GPU_MEMORY";
    constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;
    const char* const text = std::getenv(kVariable);
    if (!text || !*text) return std::vector{std::size_t{1} << 30};
    for (std::string_view rest = text;;) {
      const std::size_t comma = rest.find(',');
      out.push_back(read_number(kVariable, rest.substr(0, comma), {.min = 1, .max = kMostBytes}));
      if (comma == rest.npos) return out;
      rest.remove_prefix(comma + 1);
    }
  }();
  return bytes[std::min(static_cast<std::size_t>(gpu), bytes.size() - 1)];
}

thread_local int current_gpu = -1;

DriverState::DriverState() {
  const std::uint64_t count =
      number_in_environment("LAMINA_GPU_COUNT", 1, {.min = 1, .max = emulated::kMostDevices});
  for (int i = 0; std::cmp_less(i, count); ++i) gpus.push_back(std::make_unique<DriverDevice>(i));
}

DriverResult state() {
  DriverState& driver = DriverState::instance();
  const std::lock_guard lock(driver.mutex);
  if (!driver.started) return DriverResult::not_initialized;
  if (!driver.has(current_gpu) || driver.gpu(current_gpu).num_retained == 0)
    return DriverResult::invalid_context;
  return driver.gpu(current_gpu).failed;
}

bool is_stream(StreamHandle stream) {
  return is_known(DriverState::instance().streams, stream) && stream->line.device == current_gpu;
}
bool is_event_of_any(EventHandle event) { return is_known(DriverState::instance().events, event); }
bool is_event(EventHandle event) { return is_event_of_any(event) && event->gpu == current_gpu; }

DriverResult stream_state(StreamHandle stream) {
  if (!is_stream(stream)) return DriverResult::invalid_handle;
  const CapturePlace& place = stream->place;
  return place.is_captured() && !place.capture->valid ? DriverResult::capture_invalidated
                                                      : DriverResult::success;
}

AtomicCounts& counts() {
  static AtomicCounts counts;
  return counts;
}

void add(StreamHandle stream, DriverGraph::Kind kind, std::function<void()> work) {
  if (stream->place.is_captured()) return stream->place.add(kind, std::move(work));
  emulated::Worker::instance().wait_for_room(stream->line, kMostWork);
  emulated::Worker::instance().add(
      stream->line,
      {.run = [gpu = stream->line.device, work = std::move(work)] { do_work(gpu, work); }});
}

DriverResult fail_launch() {
  DriverState& driver = DriverState::instance();
  const DriverResult result = driver.gpu(current_gpu).next_failure;
  driver.fail(current_gpu, result, "");
  return result;
}

}  // namespace lamina::cuda::emulation
