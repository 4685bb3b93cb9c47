// The part of the driver's interface in use, declared here: the host needs no toolkit to be built
// and no driver to start. Values are as in cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lamina::cuda {

enum class DriverResult : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  device_unavailable = 46,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  ecc_uncorrectable = 214,
  invalid_ptx = 218,
  nvlink_uncorrectable = 220,
  unsupported_ptx_version = 222,
  contained = 226,
  invalid_handle = 400,
  illegal_state = 401,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_timeout = 702,
  device_assert = 710,
  hardware_stack_error = 714,
  illegal_instruction = 715,
  misaligned_address = 716,
  invalid_address_space = 717,
  invalid_pc = 718,
  launch_failed = 719,
  system_driver_mismatch = 803,
  capture_unsupported = 900,
  capture_invalidated = 901,
  capture_merge = 902,
  capture_unmatched = 903,
  capture_unjoined = 904,
  capture_isolation = 905,
  captured_event = 907,
  capture_wrong_thread = 908,
  graph_update_failed = 910,
  unknown = 999,
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

// Calls that may not be made while work is captured: thread_local_ forbids them to this thread
// only.
enum class CaptureMode : int { global = 0, thread_local_ = 1, relaxed = 2 };

enum class FunctionAttribute : int {
  max_threads_per_block = 0,
  shared_bytes = 1,  // static
  max_dynamic_shared_bytes = 8,
};

// Options of loading a module: the size is passed in place of a pointer.
enum class LoadOption : int { error_log = 5, error_log_bytes = 6 };

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
using GraphHandle = struct DriverGraph*;  // work that was captured
using GraphNodeHandle = struct DriverGraphNode*;
using ExecutableGraphHandle = struct DriverExecutableGraph*;

// One property of a launch. `begins_early` (programmatic stream serialization): 1 lets the launch
// begin before the kernel before it has ended; for compute capability 9.0 and newer.
struct LaunchAttribute {
  enum class Id : int { begins_early = 6 };
  Id id;
  alignas(8) union {
    char bytes[64];
    int number;
  } value;
};

struct LaunchConfig {
  unsigned blocks_x, blocks_y, blocks_z, threads_x, threads_y, threads_z, shared_bytes;
  StreamHandle stream;
  LaunchAttribute* attributes;
  unsigned num_attributes;
};

// The reason why a graph could not be updated.
struct GraphUpdateInfo {
  int result;
  GraphNodeHandle node, from_node;
};

struct DriverApi {
#define LAMINA_CUDA_DRIVER(field, symbol, parameters) DriverResult(*field) parameters;
#include "backends/cuda/driver/functions.def"
#undef LAMINA_CUDA_DRIVER
};

// Returns the driver's text, name and number of an error.
std::string words_of(const DriverApi& api, DriverResult error);

// Returns the version of CUDA that the driver is for, eg: 12080.
int version_of(const DriverApi& api);

// Throws DeviceError (exit 7): "cuda: <action>: <words of the error>".
[[noreturn]] void throw_driver_error(const DriverApi& api, DriverResult error, const char* action);

inline void check(const DriverApi& api, DriverResult result, const char* action) {
  if (result != DriverResult::success) [[unlikely]]
    throw_driver_error(api, result, action);
}

}  // namespace lamina::cuda
