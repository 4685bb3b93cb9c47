// Zeroed memory from the operating system, on huge pages when it is large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/backend.h"

namespace lamina::cpu {

// Allocates 64-byte aligned memory. From 4 MiB on it is 2 MiB aligned and on huge pages, except the
// last part of one, if the system grants them. Throws DeviceError (exit 7), with the requested and
// the available size, if the system refuses, or if the machine or the cgroup has less left. [any
// thread]
std::unique_ptr<Buffer> allocate_memory(std::size_t bytes);

// Returns the bytes that the process may still use: the machine's available memory, limited by its
// cgroup (v1 or v2). [any thread]
std::uint64_t available_memory_bytes();

// Returns the bytes in physical memory of this process: its own, and the pages of files that it has
// read. [any thread]
std::uint64_t resident_memory_bytes();

// Returns "3.2 GiB", "512 KiB", "17 bytes".
std::string human_bytes(std::uint64_t bytes);

}  // namespace lamina::cpu
