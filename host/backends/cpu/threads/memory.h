// Zeroed memory from the operating system, on huge pages when it is large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/backend.h"

namespace lamina::cpu {

// 64-byte aligned; from 4 MiB on 2 MiB aligned and on huge pages, but for a last part of one, where
// the system grants them.
// Throws DeviceError (exit 7) when the system refuses, or when more is asked for than the machine
// and the cgroup have left, saying how much was asked and how much there is. [any thread]
std::unique_ptr<Buffer> allocate_memory(std::size_t bytes);

// Bytes that the process may still use: what the machine has available, at most what the limit of
// its cgroup (v1 or v2) leaves. [any thread]
std::uint64_t available_memory_bytes();

// Bytes that lie in the machine's memory now for this process: its own and the pages of its files
// that it has read. [any thread]
std::uint64_t resident_memory_bytes();

// "3.2 GiB", "512 KiB", "17 bytes".
std::string human_bytes(std::uint64_t bytes);

}  // namespace lamina::cpu
