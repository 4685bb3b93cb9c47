// The double of the driver: the driver as a whole, its device and context, and the words of errors.
#include <algorithm>
#include <cstring>

#include "backends/cuda/emulation/driver_state.h"
#include "backends/cuda/emulation/grid.h"

namespace lamina::cuda::emulation {
namespace {

constexpr int kDriverVersion = 13000;
constexpr int kCacheBytes = 1 << 20;  // less than an H200's 60 MB: measuring takes 8 times as much

struct ErrorWords {
  DriverResult result;
  const char *name, *text;
};
constexpr ErrorWords kErrorWords[] = {
    {DriverResult::success, "CUDA_SUCCESS", "no error"},
    {DriverResult::invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {DriverResult::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {DriverResult::not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {DriverResult::invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {DriverResult::invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {DriverResult::invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {DriverResult::invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {DriverResult::not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {DriverResult::launch_out_of_resources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {DriverResult::launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};

}  // namespace

namespace calls {

DriverResult init(unsigned flags) {
  if (flags != 0) return DriverResult::invalid_value;
  DriverState::instance().started = true;
  return DriverResult::success;
}
DriverResult get_version(int* version) { return *version = kDriverVersion, DriverResult::success; }

DriverResult get_error_name(DriverResult error, const char** text) {
  for (const ErrorWords& words : kErrorWords)
    if (words.result == error) return *text = words.name, DriverResult::success;
  return *text = nullptr, DriverResult::invalid_value;
}
// The text of a failed kernel is the report of the emulated GPU.
DriverResult get_error_string(DriverResult error, const char** text) {
  DriverState& driver = DriverState::instance();
  if (driver.has(current_gpu))
    if (const DriverDevice& gpu = driver.gpu(current_gpu);
        error == gpu.failed && !gpu.report.empty())
      return *text = gpu.report.c_str(), DriverResult::success;
  for (const ErrorWords& words : kErrorWords)
    if (words.result == error) return *text = words.text, DriverResult::success;
  return *text = nullptr, DriverResult::invalid_value;
}

DriverResult device_count(int* count) {
  if (!DriverState::instance().started) return DriverResult::not_initialized;
  return *count = static_cast<int>(DriverState::instance().gpus.size()), DriverResult::success;
}
DriverResult device(DeviceId* id, int ordinal) {
  if (!DriverState::instance().started) return DriverResult::not_initialized;
  if (!DriverState::instance().has(ordinal)) return DriverResult::invalid_device;
  return *id = ordinal, DriverResult::success;
}
DriverResult device_name(char* name, int length, DeviceId id) {
  if (!DriverState::instance().has(id)) return DriverResult::invalid_device;
  std::strncpy(name, "emulated GPU", static_cast<std::size_t>(length));
  return DriverResult::success;
}
DriverResult device_attribute(int* value, DeviceAttribute attribute, DeviceId id) {
  if (!DriverState::instance().has(id)) return DriverResult::invalid_device;
  switch (attribute) {
    case DeviceAttribute::max_threads_per_block:
      return *value = kMostThreads, DriverResult::success;
    case DeviceAttribute::max_shared_bytes_per_block:
      return *value = kUsualSharedBytes, DriverResult::success;
    case DeviceAttribute::max_opt_in_shared_bytes:
      return *value = static_cast<int>(shared_bytes_of_block()), DriverResult::success;
    case DeviceAttribute::clock_khz:
      return *value = 1'980'000, DriverResult::success;
    case DeviceAttribute::num_multiprocessors:
      return *value = 132, DriverResult::success;
    case DeviceAttribute::l2_bytes:
      return *value = kCacheBytes, DriverResult::success;
    case DeviceAttribute::capability_major:
      return *value = 9, DriverResult::success;
    case DeviceAttribute::capability_minor:
      return *value = 0, DriverResult::success;
  }
  return DriverResult::invalid_value;
}
DriverResult device_memory(std::size_t* bytes, DeviceId id) {
  if (!DriverState::instance().has(id)) return DriverResult::invalid_device;
  return *bytes = kMemoryBytes, DriverResult::success;
}

DriverResult retain_context(ContextHandle* context, DeviceId id) {
  DriverState& driver = DriverState::instance();
  if (!driver.started) return DriverResult::not_initialized;
  if (!driver.has(id)) return DriverResult::invalid_device;
  const std::lock_guard lock(driver.mutex);
  ++driver.gpu(id).num_retained;
  return *context = &driver.gpu(id).context, DriverResult::success;
}
DriverResult release_context(DeviceId id) {
  DriverState& driver = DriverState::instance();
  if (!driver.has(id)) return DriverResult::invalid_device;
  const std::lock_guard lock(driver.mutex);
  if (driver.gpu(id).num_retained == 0) return DriverResult::invalid_context;
  --driver.gpu(id).num_retained;
  return DriverResult::success;
}
DriverResult set_context(ContextHandle context) {
  DriverState& driver = DriverState::instance();
  if (!driver.started) return DriverResult::not_initialized;
  if (context &&
      std::ranges::none_of(driver.gpus, [&](const auto& gpu) { return context == &gpu->context; }))
    return DriverResult::invalid_context;
  current_gpu = context ? context->gpu : -1;
  return DriverResult::success;
}
DriverResult synchronize() {
  if (const DriverResult result = state(); result != DriverResult::success) return result;
  emulated::finish_all_work(current_gpu);
  return state();
}

}  // namespace calls
}  // namespace lamina::cuda::emulation
