#include "backends/cuda/emulation/driver_state.h"

#include <algorithm>
#include <cstdlib>

#include "core/error.h"

namespace lamina::cuda::emulation {
namespace {

template <typename Handle>
bool is_known(const std::set<Handle>& handles, Handle handle) {
  const std::lock_guard lock(DriverState::instance().mutex);
  return handles.contains(handle);
}
// Work of a failed GPU does nothing.
void do_work(int gpu, const std::function<void()>& work) {
  DriverState& driver = DriverState::instance();
  if (driver.has_failed(gpu)) return;
  if (driver.is_fault(gpu, FaultPlace::work)) return driver.fail(gpu, kLost, "");
  try {
    work();
  } catch (const Error& e) {
    driver.fail(gpu, DriverResult::launch_failed, (e.text().where + ": " + e.text().what).c_str());
  }
}

int gpus_in_environment() {
  const char* text = std::getenv("LAMINA_GPU_COUNT");
  return text && *text ? std::atoi(text) : 1;
}

}  // namespace

thread_local int current_gpu = -1;

DriverState::DriverState() {
  const int count = std::clamp(gpus_in_environment(), 0, emulated::kMostDevices);
  for (int i = 0; i < count; ++i) gpus.push_back(std::make_unique<DriverDevice>(i));
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

void add(StreamHandle stream, std::function<void()> work) {
  emulated::Worker::instance().add(
      stream->line,
      {.run = [gpu = stream->line.device, work = std::move(work)] { do_work(gpu, work); }});
}

DriverResult finish(StreamHandle stream) {
  auto mark = std::make_shared<emulated::Mark>();
  emulated::Worker::instance().add(stream->line, {.marks = mark});
  emulated::Worker::instance().wait(*mark);
  return state();
}

}  // namespace lamina::cuda::emulation
