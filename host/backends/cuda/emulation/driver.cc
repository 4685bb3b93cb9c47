#include "backends/cuda/emulation/driver.h"

#include "backends/cuda/backend.h"
#include "backends/cuda/driver/watched_calls.h"
#include "backends/cuda/emulation/blas.h"
#include "backends/cuda/emulation/dnn.h"
#include "backends/cuda/emulation/driver_state.h"
#include "backends/cuda/emulation/grid.h"
#include "core/error.h"

namespace lamina::cuda::emulation {
namespace {

struct EmulatedDriver;

DriverApi functions() {
  DriverApi api;
#define LAMINA_CUDA_DRIVER(field, symbol, parameters) \
  api.field = calls::field;                           \
  watch<EmulatedDriver, &DriverApi::field>(api.field, #symbol);
#include "backends/cuda/driver/functions.def"
#undef LAMINA_CUDA_DRIVER
  return api;
}

}  // namespace

const DriverApi& driver() {
  static const DriverApi api = functions();
  return api;
}
// The data of an image is its name.
std::span<const ModuleImage> images() {
  static const std::vector<std::string> names = module_names();
  static const std::vector<ModuleImage> images = [] {
    std::vector<ModuleImage> out;
    for (const std::string& name : names) out.push_back({name, &name});
    return out;
  }();
  return images;
}

DriverResult add_work(StreamHandle stream, std::function<void()> work) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (const DriverResult result = stream_state(stream); result != DriverResult::success)
    return result;
  add(stream, DriverGraph::Kind::kernel, std::move(work));
  return DriverResult::success;
}

void set_num_gpus(int count) {
  LAMINA_ASSERT(count >= 0 && count <= emulated::kMostDevices);
  DriverState& driver = DriverState::instance();
  const std::lock_guard lock(driver.mutex);
  while (std::ssize(driver.gpus) < count)
    driver.gpus.push_back(std::make_unique<DriverDevice>(static_cast<int>(driver.gpus.size())));
  // A later GPU may have the address of a removed one, and must not find its functions.
  std::erase_if(driver.functions,
                [&](const auto& function) { return function.second->gpu >= count; });
  driver.gpus.resize(static_cast<std::size_t>(count));
}

int num_gpus() { return static_cast<int>(DriverState::instance().gpus.size()); }

std::unique_ptr<Backend> open_emulated_gpu(int ordinal) {
  return open_backend(driver(), images(), ordinal, {.blas = blas_api, .dnn = dnn_opened});
}

const Backend& emulated_gpu() {
  static const Backend& backend = *open_emulated_gpu().release();
  return backend;
}

DriverCounts driver_counts() {
  const AtomicCounts& now = counts();
  return {now.captures, now.instantiations, now.updates,     now.replays,      now.launches,
          now.loads,    now.waits,          now.allocations, now.bytes_to_host};
}

std::size_t most_pinned_bytes() {
  const std::lock_guard lock(DriverState::instance().mutex);
  return DriverState::instance().most_pinned;
}
void start_pinned_count() {
  DriverState& driver = DriverState::instance();
  const std::lock_guard lock(driver.mutex);
  driver.most_pinned = driver.pinned;
}

void fail_later(FaultPlace place, int after, int gpu, DriverResult result) {
  DriverState& driver = DriverState::instance();
  const std::lock_guard lock(driver.mutex);
  driver.gpu(gpu).until_fault[static_cast<std::size_t>(place)] = after;
  driver.gpu(gpu).next_failure = result;
}

void reset_gpu() {
  DriverState& driver = DriverState::instance();
  {
    const std::lock_guard lock(driver.mutex);
    driver.hangs = false;
    driver.changed.notify_all();
  }
  for (int gpu = 0; gpu < num_gpus(); ++gpu) {
    emulated::finish_all_work(gpu);
    const std::lock_guard lock(driver.mutex);
    driver.gpu(gpu).failed = DriverResult::success;
    driver.gpu(gpu).report.clear();
    driver.gpu(gpu).until_fault.fill(-1);
  }
}

}  // namespace lamina::cuda::emulation
