// The GPUs of a run that uses several.
#pragma once

#include <string_view>
#include <vector>

#include "device/device.h"
#include "runtime/communicator.h"

namespace lamina::device {

// Opens the devices of "cuda:0,1": GPUs with these numbers. Any other name is one device, as in
// open(). Throws UserError (exit 2) as open() does, and for a GPU that is named twice or a list of
// other devices. [main thread]
std::vector<const Device*> open_all(std::string_view names);

// Connects devices of open_all(), which has several. Throws UserError (exit 2) if NCCL is missing
// or too old, and DeviceError (exit 6) if the GPUs cannot be connected. [main thread]
CommunicatorGroup connect(const std::vector<const Device*>& devices);

}  // namespace lamina::device
