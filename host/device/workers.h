// Uses the device's threads for work outside graphs: tokenizing, reading weights.
#pragma once

#include "core/workers.h"
#include "device/device.h"

namespace lamina::device {

// REQUIRES: the device outlives the result.
Workers workers(const Device& device);

}  // namespace lamina::device
