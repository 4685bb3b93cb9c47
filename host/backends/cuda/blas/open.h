// Opens cuBLASLt, which the program does not link.
#pragma once

#include <span>

#include "backends/cuda/blas/api.h"

namespace lamina::cuda::blas {

// Returns the functions of the first library that can be opened. Throws DeviceError (exit 7) if
// none can, or if it lacks a function. [any thread]
Api open_api(std::span<const char* const> files);

// Returns the libraries that run with a driver for this version of CUDA, eg: 12080, the newest
// first. A driver also runs libraries of older versions, but not of a newer major version.
std::span<const char* const> files_for(int driver_version);

// Opens the library for the driver of this machine, once per process.
const Api& system_api();

}  // namespace lamina::cuda::blas
