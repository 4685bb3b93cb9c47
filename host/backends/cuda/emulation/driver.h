// A double of the driver with one emulated GPU: streams whose work runs late and in any order that
// events allow (backends/emulated), memory that the host cannot access, kernels compiled for the
// host. Calls that break a rule of the driver's documentation return its error.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "backends/cuda/driver/api.h"
#include "backends/cuda/modules.h"
#include "runtime/backend.h"

namespace lamina::cuda::emulation {

// The functions of the double, and its one image, with all kernels of the program. [any thread]
const DriverApi& driver();
std::span<const ModuleImage> images();

// Returns the backend of the emulated GPU. [any thread]
const Backend& emulated_gpu();

// Adds work to a stream: for doubles of libraries. Returns an error as cuLaunchKernel does.
DriverResult add_work(StreamHandle stream, std::function<void()> work);

// As on a GPU, all calls fail after work has failed. Makes the GPU usable again. [no work runs]
void reset_gpu();

}  // namespace lamina::cuda::emulation
