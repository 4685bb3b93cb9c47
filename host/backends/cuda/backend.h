// A GPU as a backend.
#pragma once

#include <memory>
#include <span>

#include "backends/cuda/driver/api.h"
#include "backends/cuda/libraries.h"
#include "backends/cuda/modules.h"
#include "runtime/backend.h"

namespace lamina::cuda {

// Opens GPU `ordinal` of the driver with these kernels, which both must stay as long as the
// backend; `cache` is a folder for choices of cuBLASLt, or "" for none. Throws DeviceError (exit 7)
// if the driver or the GPU cannot be used.
std::unique_ptr<Backend> open_backend(const DriverApi& api, std::span<const ModuleImage> images,
                                      int ordinal, const Libraries& libraries = {},
                                      const std::string& cache = {});

}  // namespace lamina::cuda
