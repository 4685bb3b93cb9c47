#include "backends/cuda/emulation/driver.h"

#include "backends/cuda/backend.h"
#include "backends/cuda/emulation/blas.h"
#include "backends/cuda/emulation/driver_state.h"

namespace lamina::cuda::emulation {
namespace {

constexpr DriverApi kApi = {
#define LAMINA_CUDA_DRIVER(field, symbol, parameters) .field = calls::field,
#include "backends/cuda/driver/functions.def"
#undef LAMINA_CUDA_DRIVER
};
constexpr ModuleImage kImages[] = {{"", kImage}};

}  // namespace

const DriverApi& driver() { return kApi; }
std::span<const ModuleImage> images() { return kImages; }

DriverResult add_work(StreamHandle stream, std::function<void()> work) {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  if (!is_stream(stream)) return DriverResult::invalid_handle;
  add(stream, std::move(work));
  return DriverResult::success;
}

std::unique_ptr<Backend> open_emulated_gpu() {
  return open_backend(driver(), images(), 0, blas_api);
}

const Backend& emulated_gpu() {
  static const Backend& backend = *open_emulated_gpu().release();
  return backend;
}

void fail_later(FaultPlace place, int after) {
  DriverState& driver = DriverState::instance();
  const std::lock_guard lock(driver.mutex);
  driver.until_fault[static_cast<std::size_t>(place)] = after;
}

void reset_gpu() {
  emulated::finish_all_work();
  DriverState& driver = DriverState::instance();
  const std::lock_guard lock(driver.mutex);
  driver.failed = DriverResult::success;
  driver.report.clear();
  driver.until_fault.fill(-1);
}

}  // namespace lamina::cuda::emulation
