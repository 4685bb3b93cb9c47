// lamina_cuda.so: the kernels for GPUs, compiled by nvcc. Separate from the program, because a
// build without the toolkit has none of them; the program opens it when a GPU is wanted.
#pragma once

#include <cstdint>
#include <span>

#include "backends/cuda/driver/api.h"
#include "backends/cuda/modules.h"

namespace lamina::cuda {

// The only symbol of the library, lamina_cuda_kernels. Plain data, because the library and the
// program may be of different builds: `version` decides if the rest may be read.
struct KernelLibrary {
  const char* version;          // of lamina
  std::int64_t driver_version;  // the oldest that can load the images: 13000 is CUDA 13.0
  std::uint64_t num_images;
  const struct Image {
    const char* name;
    const void* data;
  } * images;
};

// Opens the library, beside the program in ../lib/lamina, and checks that the driver can load its
// kernels. They stay until the process ends. Throws DeviceError (exit 7).
std::span<const ModuleImage> open_kernel_library(const DriverApi& api);

}  // namespace lamina::cuda
