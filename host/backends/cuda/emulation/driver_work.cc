// The fake driver: streams, events and kernels.
#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cuda/emulation/driver_state.h"
#include "backends/cuda/emulation/grid.h"

namespace lamina::cuda::emulation {
namespace {

// An event of a capture cannot be waited for by the host.
DriverResult refuse_event(const DriverEvent& event) {
  event.place.capture->valid = false;
  return DriverResult::captured_event;
}

// Orders work of a stream after an event, if one of the two is in a capture: the stream joins the
// capture of the event.
DriverResult join_capture(DriverStream& stream, const DriverEvent& event) {
  const auto refuse = [&](DriverResult result) {
    for (const CapturePlace* place : {&std::as_const(stream.place), &event.place})
      if (place->is_captured()) place->capture->valid = false;
    return result;
  };
  if (!event.place.is_captured())
    return event.mark || event.place.capture ? refuse(DriverResult::capture_isolation)
                                             : DriverResult::success;
  if (stream.place.is_captured() && stream.place.capture != event.place.capture)
    return refuse(DriverResult::capture_merge);
  if (!stream.place.is_captured()) stream.place = {event.place.capture, {}};
  std::vector<std::size_t>& after = stream.place.after;
  after.insert(after.end(), event.place.after.begin(), event.place.after.end());
  std::ranges::sort(after);
  after.erase(std::ranges::unique(after).begin(), after.end());
  return DriverResult::success;
}

}  // namespace

namespace calls {

DriverResult make_stream(StreamHandle* stream, unsigned flags) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (flags != kStreamNonBlocking) return DriverResult::invalid_value;
  *stream = new DriverStream;
  (*stream)->line.device = current_gpu;
  emulated::Worker::instance().open((*stream)->line);
  DriverState& driver = DriverState::instance();
  const std::lock_guard lock(driver.mutex);
  driver.streams.insert(*stream);
  return DriverResult::success;
}
DriverResult destroy_stream(StreamHandle stream) {
  DriverState& driver = DriverState::instance();
  {
    const std::lock_guard lock(driver.mutex);
    if (driver.streams.erase(stream) == 0) return DriverResult::invalid_handle;
  }
  emulated::Worker::instance().close(stream->line);
  delete stream;
  return state();
}
DriverResult wait_event(StreamHandle stream, EventHandle event, unsigned flags) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (flags != 0) return DriverResult::invalid_value;
  if (!is_stream(stream) || !is_event_of_any(event)) return DriverResult::invalid_handle;
  if (event->place.capture || stream->place.is_captured()) return join_capture(*stream, *event);
  if (event->mark) emulated::Worker::instance().add(stream->line, {.waits = event->mark});
  return DriverResult::success;
}

DriverResult make_event(EventHandle* event, unsigned flags) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (flags != kEventDefault && flags != kEventWithoutTime) return DriverResult::invalid_value;
  *event = new DriverEvent{nullptr, flags == kEventDefault, current_gpu};
  DriverState& driver = DriverState::instance();
  const std::lock_guard lock(driver.mutex);
  driver.events.insert(*event);
  return DriverResult::success;
}
DriverResult destroy_event(EventHandle event) {
  DriverState& driver = DriverState::instance();
  {
    const std::lock_guard lock(driver.mutex);
    if (driver.events.erase(event) == 0) return DriverResult::invalid_handle;
  }
  delete event;
  return DriverResult::success;
}
DriverResult record_event(EventHandle event, StreamHandle stream) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (!is_event(event) || !is_stream(stream)) return DriverResult::invalid_handle;
  if (stream->place.is_captured()) {
    event->mark = nullptr;
    event->place = stream->place;
    return stream_state(stream);
  }
  event->place = {};
  event->waited = false;
  event->mark = std::make_shared<emulated::Mark>();
  emulated::Worker::instance().add(stream->line, {.marks = event->mark});
  return DriverResult::success;
}
DriverResult query_event(EventHandle event) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (!is_event(event)) return DriverResult::invalid_handle;
  if (event->place.capture) return refuse_event(*event);
  if (const DriverResult result = refuse_in_capture(); result != DriverResult::success)
    return result;
  if (!event->waited) ++counts().waits;
  event->waited = true;
  if (event->mark && !emulated::Worker::instance().is_reached(*event->mark))
    return DriverResult::not_ready;
  return state();
}
DriverResult elapsed(float* milliseconds, EventHandle start, EventHandle end) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  for (const EventHandle event : {start, end}) {
    if (is_event(event) && event->place.capture) return refuse_event(*event);
    if (!is_event(event) || !event->mark || !event->has_time) return DriverResult::invalid_handle;
    if (!emulated::Worker::instance().is_reached(*event->mark)) return DriverResult::not_ready;
  }
  *milliseconds =
      std::chrono::duration<float, std::milli>(end->mark->time - start->mark->time).count();
  return DriverResult::success;
}

DriverResult launch(const LaunchConfig* config, FunctionHandle function, void** params,
                    void** extra) {
  const LaunchConfig& c = *config;
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (function->gpu != current_gpu) return DriverResult::invalid_handle;
  if (const DriverResult result = stream_state(c.stream); result != DriverResult::success)
    return result;
  const unsigned blocks[] = {c.blocks_x, c.blocks_y, c.blocks_z};
  for (std::size_t i = 0; i < 3; ++i)
    if (blocks[i] == 0 || blocks[i] > kMostGridBlocks[i]) return DriverResult::invalid_value;
  if (c.threads_x == 0 || c.threads_x > kMostThreads || c.threads_y != 1 || c.threads_z != 1)
    return DriverResult::invalid_value;
  const gpu::EmulatedKernel& kernel = *function->kernel;
  if (static_cast<int>(c.threads_x) > kernel.max_threads)
    return DriverResult::launch_out_of_resources;
  if (c.shared_bytes > function->max_shared_bytes) return DriverResult::invalid_value;
  // A kernel that does not wait may begin early only on a real GPU, and then has wrong operands.
  for (unsigned i = 0; i < c.num_attributes; ++i)
    if (c.attributes[i].id != LaunchAttribute::Id::begins_early ||
        kernel.wait == gpu::EmulatedWait::never)
      return DriverResult::invalid_value;
  if (params || !extra || extra[0] != kLaunchParams || extra[2] != kLaunchParamsBytes ||
      extra[4] != kLaunchEnd)
    return DriverResult::invalid_value;
  const auto bytes = *static_cast<const std::size_t*>(extra[3]);
  if (bytes != params_bytes(function->parameters)) return DriverResult::invalid_value;
  // Parameters are read during the call. Aligned for every type; the kernel may copy padding too.
  const std::shared_ptr<std::max_align_t[]> copy(
      new std::max_align_t[kernel.params_bytes / sizeof(std::max_align_t) + 1]());
  std::memcpy(copy.get(), extra[1], bytes);
  if (DriverState::instance().is_fault(current_gpu, FaultPlace::launch)) return fail_launch();
  const GridShape shape = {
      {static_cast<int>(c.blocks_x), static_cast<int>(c.blocks_y), static_cast<int>(c.blocks_z)},
      static_cast<int>(c.threads_x),
      static_cast<std::int64_t>(c.shared_bytes)};
  ++counts().launches;
  add(c.stream, DriverGraph::Kind::kernel,
      [&kernel, copy, shape, gpu = current_gpu] { run_grid(kernel, copy.get(), shape, gpu); });
  return DriverResult::success;
}

}  // namespace calls
}  // namespace lamina::cuda::emulation
