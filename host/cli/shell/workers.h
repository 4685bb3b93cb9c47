// Uses the device's threads for work outside graphs: tokenizing, reading weights.
#pragma once

#include "core/workers.h"
#include "device/device.h"

namespace lamina::cli {

// REQUIRES: the device outlives the result.
Workers workers(const device::Device& device);

}  // namespace lamina::cli
