// The kernels of a program on a described GPU, and how many of them run at once.
#pragma once

#include <string>

#include "device/device.h"
#include "runtime/program.h"

namespace lamina::cli {

std::string occupancy_text(const device::Device& gpu, Program& program);

}  // namespace lamina::cli
