// The driver of this machine.
#pragma once

#include <string>

#include "backends/cuda/driver/api.h"

namespace lamina::cuda {

// Opens libcuda.so.1 and starts it. The functions stay until the process ends. Throws DeviceError
// (exit 7) if there is no driver, if it is older than CUDA 12.0, or if it finds no GPU.
const DriverApi& open_driver();

// Returns a sentence about CUDA_VISIBLE_DEVICES, for errors about missing GPUs.
std::string visible_devices_note();

}  // namespace lamina::cuda
