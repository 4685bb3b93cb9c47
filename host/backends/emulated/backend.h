// A device for tests: the kernels of the CPU on a thread beside the host, behind queues that run
// work late, in memory that the host cannot touch.
//
// - An address of a tensor is in a range without access, so a stray read or write of the host ends
//   the process; kernels are given the memory behind it.
// - Work waits until the host waits for it, or until much of it waits, and work of several queues
//   that no event orders runs in an order drawn at random: a missing wait gives wrong numbers.
#pragma once

#include "runtime/backend.h"

namespace lamina::emulated {

// The one emulated device of the process, called "cuda" as the backend that it is in the place of.
// [any thread]
const Backend& emulated_backend();

// The bytes of the buffer that the address is in; 0 where it is in none. [any thread, signal]
std::size_t bytes_of_buffer_at(Address address);

}  // namespace lamina::emulated
