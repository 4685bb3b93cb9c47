// Opens NCCL, which the program does not link.
#pragma once

#include "backends/cuda/nccl/api.h"

namespace lamina::cuda::nccl {

// Returns the functions of the library `file`. Throws DeviceError (exit 7) if it cannot be opened,
// or is older than kOldestVersion. [any thread]
NcclApi open_api(const char* file);

// Likewise for libnccl.so.2, once per process.
const NcclApi& system_api();

}  // namespace lamina::cuda::nccl
