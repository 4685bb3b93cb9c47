// The part of the driver's interface in use, declared here: the host needs no toolkit to be built
// and no driver to start. Values are as in cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lamina::cuda {

enum class DriverResult : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  unsupported_ptx_version = 222,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_failed = 719,
};

enum class DeviceAttribute : int {
  max_threads_per_block = 1,
  max_shared_bytes_per_block = 8,
  clock_khz = 13,
  num_multiprocessors = 16,
  l2_bytes = 38,
  capability_major = 75,
  capability_minor = 76,
  max_opt_in_shared_bytes = 97,
};

enum class FunctionAttribute : int { max_dynamic_shared_bytes = 8 };

inline constexpr unsigned kStreamNonBlocking = 1, kEventDefault = 0, kEventWithoutTime = 2,
                          kHostMemoryPortable = 1;

// Keys of the last argument of launch(): the parameters as one block of memory of known size.
inline void* const kLaunchParams = reinterpret_cast<void*>(std::uintptr_t{1});
inline void* const kLaunchParamsBytes = reinterpret_cast<void*>(std::uintptr_t{2});
inline void* const kLaunchEnd = nullptr;

using DeviceId = int;
using DevicePointer = std::uint64_t;  // also of host memory, because addresses are unified
using ContextHandle = struct DriverContext*;
using StreamHandle = struct DriverStream*;
using EventHandle = struct DriverEvent*;
using ModuleHandle = struct DriverModule*;
using FunctionHandle = struct DriverFunction*;

struct DriverApi {
#define LAMINA_CUDA_DRIVER(field, symbol, parameters) DriverResult(*field) parameters;
#include "backends/cuda/driver/functions.def"
#undef LAMINA_CUDA_DRIVER
};

// Throws DeviceError (exit 7): "cuda: <action>: <the driver's text and name of the error>".
[[noreturn]] void throw_driver_error(const DriverApi& api, DriverResult error, const char* action);

inline void check(const DriverApi& api, DriverResult result, const char* action) {
  if (result != DriverResult::success) [[unlikely]]
    throw_driver_error(api, result, action);
}

}  // namespace lamina::cuda
