// Memory that only the thread of the device can access.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "runtime/memory.h"

namespace lamina::emulated {

// Allocates zeroed memory of a device. Its address is in a range without access; the memory behind
// it has the same distance for all buffers of the device. DeviceError (exit 7) if the device has no
// room left. REQUIRES: device < kMostDevices.
std::unique_ptr<Buffer> allocate_inaccessible(std::size_t bytes, int device = 0);

// Returns the device that the address belongs to; -1 for memory of the host.
int device_of(Address address);

// Returns the memory behind an address, in a device or elsewhere; null for null. Only for work of
// a queue.
void* behind(Address address);

// Returns the memory behind the buffer of a device that contains the address; empty for none.
// Only for work of a queue.
std::span<std::byte> buffer_behind(Address address);

}  // namespace lamina::emulated
