// Compares driver/api.h with the header of the toolkit. Compiled where the toolkit is; has no code.
#include <cuda.h>

#include <type_traits>

#include "backends/cuda/driver/api.h"

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

// The header names the newest version of a function by a macro, and functions.def its symbol.
#define LAMINA_CUDA_DRIVER(field, symbol, parameters) \
  static_assert(kFunctionFits<decltype(DriverApi::field), decltype(&::symbol)>, #symbol);
#include "backends/cuda/driver/functions.def"
#undef LAMINA_CUDA_DRIVER

template <typename Mine, typename Theirs>
constexpr bool same(Mine mine, Theirs theirs) {
  return static_cast<long long>(mine) == static_cast<long long>(theirs);
}
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
static_assert(same(FunctionAttribute::max_dynamic_shared_bytes,
                   CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
static_assert(same(kStreamNonBlocking, CU_STREAM_NON_BLOCKING));
static_assert(same(kEventDefault, CU_EVENT_DEFAULT));
static_assert(same(kEventWithoutTime, CU_EVENT_DISABLE_TIMING));
static_assert(same(kHostMemoryPortable, CU_MEMHOSTALLOC_PORTABLE));

}  // namespace
}  // namespace lamina::cuda
