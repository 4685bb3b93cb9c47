// A GPU as a backend.
#pragma once

#include <memory>
#include <span>

#include "backends/cuda/blas/open.h"
#include "backends/cuda/driver/api.h"
#include "backends/cuda/modules.h"
#include "runtime/backend.h"

namespace lamina::cuda {

// Opens GPU `ordinal` of the driver with these kernels, which both must stay as long as the
// backend; `open_blas` is called when the first product is prepared; `cache` is a folder for
// its choices, or "" for none. Throws DeviceError (exit 7) if
// the driver or the GPU cannot be used.
std::unique_ptr<Backend> open_backend(const DriverApi& api, std::span<const ModuleImage> images,
                                      int ordinal, blas::OpenApi open_blas = blas::system_api,
                                      const std::string& cache = {});

}  // namespace lamina::cuda
