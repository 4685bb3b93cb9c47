// A device for tests: CPU kernels on a separate thread, behind queues that run work late, in memory
// that the host cannot access.
//
// - The address of a tensor is in a range without access, so a stray read or write of the host ends
//   the process; kernels use the memory behind it.
// - Work waits until the host waits for it, or until much work is enqueued. Work of several queues
//   that no event orders runs in random order, so a missing wait gives wrong numbers.
#pragma once

#include "runtime/backend.h"

namespace lamina::emulated {

// Returns the one emulated device of the process, named "cuda" like the backend that it replaces.
// [any thread]
const Backend& emulated_backend();

// Returns the bytes of the buffer that contains the address; 0 for none. [any thread, signal]
std::size_t bytes_of_buffer_at(Address address);

}  // namespace lamina::emulated
