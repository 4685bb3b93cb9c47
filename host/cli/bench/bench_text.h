// Text shared by the bench commands.
#pragma once

#include <string>

#include "device/device.h"

namespace lamina::cli {

std::string machine_text(const device::Device& device);  // "8 threads, avx512"
std::string flops_text(double flops);
std::string bandwidth_text(double bytes);

}  // namespace lamina::cli
