// Memory that only the thread of the device can touch.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/memory.h"

namespace lamina::emulated {

// Zeroed. Its address is in a range without access; the memory behind it is at one distance for all
// buffers of the device.
// DeviceError (exit 7) where the device has no room left.
std::unique_ptr<Buffer> allocate_inaccessible(std::size_t bytes);

// The memory behind an address, in the device or elsewhere; null for null. For work of a queue.
void* behind(Address address);

}  // namespace lamina::emulated
