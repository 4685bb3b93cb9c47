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

// The longest time that a rank waits for the others.
inline constexpr std::chrono::milliseconds kTimeLimit = std::chrono::minutes{10};

// Connects GPUs, whose backends are of backends/cuda and must outlive the result. `names` are for
// messages. Throws DeviceError (exit 6) if NCCL refuses. [main thread]
std::vector<std::unique_ptr<Communicator>> connect(const NcclApi& api,
                                                   std::span<const Backend* const> gpus,
                                                   std::span<const std::string> names,
                                                   std::chrono::milliseconds limit = kTimeLimit);

}  // namespace lamina::cuda::nccl
