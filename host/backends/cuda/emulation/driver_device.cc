// The fake driver: the driver as a whole, its device and context, and the texts of errors.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <sstream>

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
    {DriverResult::launch_timeout, "CUDA_ERROR_LAUNCH_TIMEOUT",
     "the launch timed out and was terminated"},
    {DriverResult::ecc_uncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE",
     "uncorrectable ECC error encountered"},
    {DriverResult::nvlink_uncorrectable, "CUDA_ERROR_NVLINK_UNCORRECTABLE",
     "uncorrectable NVLink error detected during the execution"},
    {DriverResult::device_unavailable, "CUDA_ERROR_DEVICE_UNAVAILABLE",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {DriverResult::no_binary_for_gpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {DriverResult::unsupported_ptx_version, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {DriverResult::invalid_ptx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {DriverResult::contained, "CUDA_ERROR_CONTAINED",
     "Invalid access of peer GPU memory over nvlink or a hardware error"},
    {DriverResult::illegal_state, "CUDA_ERROR_ILLEGAL_STATE",
     "the operation cannot be performed in the present state"},
    {DriverResult::illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {DriverResult::device_assert, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {DriverResult::hardware_stack_error, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
    {DriverResult::illegal_instruction, "CUDA_ERROR_ILLEGAL_INSTRUCTION",
     "an illegal instruction was encountered"},
    {DriverResult::misaligned_address, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {DriverResult::invalid_address_space, "CUDA_ERROR_INVALID_ADDRESS_SPACE",
     "operation not supported on global/shared address space"},
    {DriverResult::invalid_pc, "CUDA_ERROR_INVALID_PC", "invalid program counter"},
    {DriverResult::system_driver_mismatch, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {DriverResult::capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {DriverResult::capture_invalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {DriverResult::capture_merge, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {DriverResult::capture_unmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {DriverResult::capture_unjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {DriverResult::capture_isolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {DriverResult::captured_event, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {DriverResult::capture_wrong_thread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {DriverResult::graph_update_failed, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
     "the graph update was not performed because it included changes which violated constraints "
     "specific to instantiated graph update"},
    {DriverResult::unknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

// Returns the GPUs that CUDA_VISIBLE_DEVICES names, by number, UUID, the beginning of a UUID, or
// UUID of a MIG slice; a process sees one slice. As documented, the first entry that names none
// hides the rest.
std::vector<int> visible_gpus(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  const char* const text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!text) return all;
  std::vector<int> out;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const bool is_slice = entry.starts_with("MIG-");
    const auto found = std::ranges::find_if(all, [&](int gpu) {
      const std::string id =
          fmt::format("{}00000000-0000-0000-0000-00000000000{}", is_slice ? "MIG-" : "GPU-", gpu);
      return entry == std::to_string(gpu) || (entry.size() > 4 && id.starts_with(entry));
    });
    if (found == all.end() || std::ranges::find(out, *found) != out.end()) break;
    out.push_back(*found);
    if (is_slice) break;
  }
  return out;
}

}  // namespace

namespace calls {

DriverResult init(unsigned flags) {
  if (flags != 0) return DriverResult::invalid_value;
  DriverState& driver = DriverState::instance();
  const std::lock_guard lock(driver.mutex);
  driver.visible = visible_gpus(static_cast<int>(driver.gpus.size()));
  if (driver.visible.empty()) return DriverResult::no_device;
  driver.started = true;
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
  return *count = static_cast<int>(DriverState::instance().visible.size()), DriverResult::success;
}
DriverResult device(DeviceId* id, int ordinal) {
  if (!DriverState::instance().started) return DriverResult::not_initialized;
  const std::vector<int>& visible = DriverState::instance().visible;
  if (ordinal < 0 || ordinal >= std::ssize(visible)) return DriverResult::invalid_device;
  return *id = visible[static_cast<std::size_t>(ordinal)], DriverResult::success;
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
      return *value = capability() / 10, DriverResult::success;
    case DeviceAttribute::capability_minor:
      return *value = capability() % 10, DriverResult::success;
  }
  return DriverResult::invalid_value;
}
DriverResult device_memory(std::size_t* bytes, DeviceId id) {
  if (!DriverState::instance().has(id)) return DriverResult::invalid_device;
  return *bytes = memory_bytes(id), DriverResult::success;
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

}  // namespace calls
}  // namespace lamina::cuda::emulation
