#include "backends/cuda/emulation/driver_state.h"

#include "core/error.h"

namespace lamina::cuda::emulation {
namespace {

template <typename Handle>
bool is_known(const std::set<Handle>& handles, Handle handle) {
  const std::lock_guard lock(DriverState::instance().mutex);
  return handles.contains(handle);
}
// Work of a failed GPU does nothing.
void do_work(const std::function<void()>& work) {
  DriverState& driver = DriverState::instance();
  if (driver.has_failed()) return;
  if (driver.is_fault(FaultPlace::work)) return driver.fail(kLost, "");
  try {
    work();
  } catch (const Error& e) {
    driver.fail(DriverResult::launch_failed, (e.text().where + ": " + e.text().what).c_str());
  }
}

}  // namespace

thread_local bool has_context = false;

DriverResult state() {
  DriverState& driver = DriverState::instance();
  const std::lock_guard lock(driver.mutex);
  if (!driver.started) return DriverResult::not_initialized;
  if (!has_context || driver.num_retained == 0) return DriverResult::invalid_context;
  return driver.failed;
}

bool is_stream(StreamHandle stream) { return is_known(DriverState::instance().streams, stream); }
bool is_event(EventHandle event) { return is_known(DriverState::instance().events, event); }

void add(StreamHandle stream, std::function<void()> work) {
  emulated::Worker::instance().add(stream->line,
                                   {.run = [work = std::move(work)] { do_work(work); }});
}

DriverResult finish(StreamHandle stream) {
  auto mark = std::make_shared<emulated::Mark>();
  emulated::Worker::instance().add(stream->line, {.marks = mark});
  emulated::Worker::instance().wait(*mark);
  return state();
}

}  // namespace lamina::cuda::emulation
