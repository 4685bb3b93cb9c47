// The part of NCCL's interface in use, declared here: the host needs no NCCL to be built or to
// start. Values are as in nccl.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/driver/api.h"

namespace lamina::cuda::nccl {

enum class NcclResult : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

enum class NcclType : int { uint8 = 1, float32 = 7 };
enum class NcclReduction : int { sum = 0 };

struct UniqueId {
  char bytes[128];
};

// ncclConfig_t of NCCL 2.14, which newer versions accept.
struct Config {
  std::size_t size;
  unsigned magic, version;
  int blocking;
};
inline constexpr int kOldestVersion = 21400;  // major * 10000 + minor * 100 + patch
inline constexpr unsigned kConfigMagic = 0xcafebeef;

using CommunicatorHandle = struct NcclCommunicator*;

struct NcclApi {
#define LAMINA_NCCL(field, symbol, parameters) NcclResult(*field) parameters;
#include "backends/cuda/nccl/functions.def"
#undef LAMINA_NCCL
  const char* (*error_text)(NcclResult error);                 // ncclGetErrorString
  const char* (*last_error)(CommunicatorHandle communicator);  // ncclGetLastError
};

// Returns the functions; throws DeviceError (exit 7) if there is no library.
using OpenNccl = const NcclApi& (*)();

}  // namespace lamina::cuda::nccl
