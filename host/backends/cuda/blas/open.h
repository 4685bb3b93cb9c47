// Opens cuBLASLt, which the program does not link.
#pragma once

#include <span>

#include "backends/cuda/blas/api.h"

namespace lamina::cuda::blas {

// Returns the functions of the first library that can be opened. Throws DeviceError (exit 7) if
// none can, or if it lacks a function. [any thread]
Api open_api(std::span<const char* const> files);

// Likewise for the libraries of CUDA 13 and 12, once per process.
const Api& system_api();

}  // namespace lamina::cuda::blas
