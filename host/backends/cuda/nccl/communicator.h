// Communicators of GPUs of this process, by NCCL.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/nccl/api.h"
#include "runtime/communicator.h"

namespace lamina::cuda::nccl {

// Connects GPUs, whose backends are of backends/cuda and must outlive the result. `names` are for
// messages. `limit`: the longest time that a rank waits for the others; 0: no limit. Throws
// DeviceError (exit 6) if NCCL refuses. Sets NCCL_ALGO if neither the environment nor a
// configuration file of NCCL has it. [main thread]
std::vector<std::unique_ptr<Communicator>> connect(const NcclApi& api,
                                                   std::span<const Backend* const> gpus,
                                                   std::span<const std::string> names,
                                                   std::chrono::milliseconds limit);

}  // namespace lamina::cuda::nccl
