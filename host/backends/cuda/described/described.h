// A GPU that is only described: programs are compiled for it, with kernels and workspaces, but
// nothing runs. Needs neither a driver nor lamina_cuda.so nor cuBLASLt.
#pragma once

#include <memory>

#include "backends/cuda/described/cards.h"
#include "runtime/backend.h"

namespace lamina::cuda {

// Work that is put on its queue throws DeviceError (exit 7). Its products have the largest
// workspace that cuBLASLt may ask for.
std::unique_ptr<Backend> describe_backend(const Card& card);

}  // namespace lamina::cuda
