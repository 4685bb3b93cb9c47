// Compares driver/api.h with the header of the toolkit. Compiled where the toolkit is; has no code.
#include <cuda.h>

#include <type_traits>

#include "backends/cuda/driver/api.h"
#include "backends/cuda/driver/same_call.h"

namespace lamina::cuda {
namespace {

// A type of ours for one of the header: enums and handles have other names.
template <typename Mine, typename Theirs>
constexpr bool kFits = std::is_same_v<Mine, Theirs> ||
                       (sizeof(Mine) == sizeof(Theirs) &&
                        ((std::is_pointer_v<Mine> && std::is_pointer_v<Theirs>) ||
                         (std::is_enum_v<Theirs> &&
                          (std::is_enum_v<Mine> || std::is_integral_v<Mine>)) ||
                         (std::is_integral_v<Mine> && std::is_integral_v<Theirs> &&
                          std::is_signed_v<Mine> == std::is_signed_v<Theirs>)));

template <typename Mine, typename Theirs>
constexpr bool kFunctionFits = false;
template <typename... Mine, typename... Theirs>
constexpr bool kFunctionFits<DriverResult (*)(Mine...), CUresult (*)(Theirs...)> = [] {
  if constexpr (sizeof...(Mine) == sizeof...(Theirs)) return (kFits<Mine, Theirs> && ...);
  return false;
}();

#if CUDA_VERSION < 12040
#define LAMINA_CUDA_DRIVER_OPTIONAL(field, symbol, parameters)
#endif
// The header names the newest version of a function by a macro, and functions.def its symbol.
#define LAMINA_CUDA_DRIVER(field, symbol, parameters) \
  static_assert(kFunctionFits<decltype(DriverApi::field), decltype(&::symbol)>, #symbol);
#include "backends/cuda/driver/functions.def"
#undef LAMINA_CUDA_DRIVER

static_assert(same(DriverResult::success, CUDA_SUCCESS));
static_assert(same(DriverResult::invalid_value, CUDA_ERROR_INVALID_VALUE));
static_assert(same(DriverResult::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY));
static_assert(same(DriverResult::not_initialized, CUDA_ERROR_NOT_INITIALIZED));
static_assert(same(DriverResult::no_device, CUDA_ERROR_NO_DEVICE));
static_assert(same(DriverResult::invalid_device, CUDA_ERROR_INVALID_DEVICE));
static_assert(same(DriverResult::invalid_image, CUDA_ERROR_INVALID_IMAGE));
static_assert(same(DriverResult::invalid_context, CUDA_ERROR_INVALID_CONTEXT));
static_assert(same(DriverResult::no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU));
static_assert(same(DriverResult::unsupported_ptx_version, CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
static_assert(same(DriverResult::invalid_handle, CUDA_ERROR_INVALID_HANDLE));
static_assert(same(DriverResult::not_found, CUDA_ERROR_NOT_FOUND));
static_assert(same(DriverResult::not_ready, CUDA_ERROR_NOT_READY));
static_assert(same(DriverResult::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS));
static_assert(same(DriverResult::launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
static_assert(same(DriverResult::launch_failed, CUDA_ERROR_LAUNCH_FAILED));
static_assert(same(DriverResult::device_unavailable, CUDA_ERROR_DEVICE_UNAVAILABLE));
static_assert(same(DriverResult::ecc_uncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE));
static_assert(same(DriverResult::invalid_ptx, CUDA_ERROR_INVALID_PTX));
static_assert(same(DriverResult::nvlink_uncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE));
#if CUDA_VERSION >= 12080
static_assert(same(DriverResult::contained, CUDA_ERROR_CONTAINED));
#endif
static_assert(same(DriverResult::launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT));
static_assert(same(DriverResult::device_assert, CUDA_ERROR_ASSERT));
static_assert(same(DriverResult::hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR));
static_assert(same(DriverResult::illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION));
static_assert(same(DriverResult::misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS));
static_assert(same(DriverResult::invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE));
static_assert(same(DriverResult::invalid_pc, CUDA_ERROR_INVALID_PC));
static_assert(same(DriverResult::system_driver_mismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH));
static_assert(same(DriverResult::capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
static_assert(same(DriverResult::capture_invalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
static_assert(same(DriverResult::illegal_state, CUDA_ERROR_ILLEGAL_STATE));
static_assert(same(DriverResult::capture_merge, CUDA_ERROR_STREAM_CAPTURE_MERGE));
static_assert(same(DriverResult::capture_unmatched, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED));
static_assert(same(DriverResult::capture_unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED));
static_assert(same(DriverResult::capture_isolation, CUDA_ERROR_STREAM_CAPTURE_ISOLATION));
static_assert(same(DriverResult::captured_event, CUDA_ERROR_CAPTURED_EVENT));
static_assert(same(DriverResult::capture_wrong_thread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD));
static_assert(same(DriverResult::graph_update_failed, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE));
static_assert(same(DriverResult::unknown, CUDA_ERROR_UNKNOWN));
static_assert(same(CaptureMode::global, CU_STREAM_CAPTURE_MODE_GLOBAL));
static_assert(same(CaptureMode::thread_local_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
static_assert(same(CaptureMode::relaxed, CU_STREAM_CAPTURE_MODE_RELAXED));
static_assert(same(LaunchAttribute::Id::begins_early,
                   CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION));
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchConfig, threads_x) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(LaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, num_attributes) == offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(GraphUpdateInfo) == sizeof(CUgraphExecUpdateResultInfo));
static_assert(offsetof(GraphUpdateInfo, node) == offsetof(CUgraphExecUpdateResultInfo, errorNode));
static_assert(same(DeviceAttribute::max_threads_per_block,
                   CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
static_assert(same(DeviceAttribute::max_shared_bytes_per_block,
                   CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
static_assert(same(DeviceAttribute::clock_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE));
static_assert(same(DeviceAttribute::num_multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(same(DeviceAttribute::l2_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
static_assert(same(DeviceAttribute::capability_major,
                   CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(same(DeviceAttribute::capability_minor,
                   CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(same(DeviceAttribute::max_opt_in_shared_bytes,
                   CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
static_assert(same(FunctionAttribute::max_threads_per_block,
                   CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
static_assert(same(FunctionAttribute::shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
static_assert(same(LoadOption::error_log, CU_JIT_ERROR_LOG_BUFFER));
static_assert(same(LoadOption::error_log_bytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES));
static_assert(same(FunctionAttribute::max_dynamic_shared_bytes,
                   CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
static_assert(same(kStreamNonBlocking, CU_STREAM_NON_BLOCKING));
static_assert(same(kEventDefault, CU_EVENT_DEFAULT));
static_assert(same(kEventWithoutTime, CU_EVENT_DISABLE_TIMING));
static_assert(same(kHostMemoryPortable, CU_MEMHOSTALLOC_PORTABLE));

}  // namespace
}  // namespace lamina::cuda
