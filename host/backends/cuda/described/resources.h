// The needs of kernels on a multiprocessor, by the compiler's report, and how many of their blocks
// run there at once.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "backends/cuda/described/cards.h"

namespace lamina::cuda {

// One row of a table <family>/resources.def, which scripts/gpu_kernels writes.
struct KernelResources {
  std::string_view kernel;
  std::string_view module;         // the ModuleImage that has it
  int registers_90, registers_80;  // of a thread, compiled for sm_90a and for sm_80
  int stack_bytes, spilled_bytes;  // of a thread, the larger of both
  int shared_bytes;                // static, of a block
  std::string_view reason;         // for a stack, or for many registers
};

std::span<const KernelResources> kernel_resources();
// Returns null if no table has the kernel.
const KernelResources* find_resources(std::string_view kernel);

struct Occupancy {
  int blocks;         // on a multiprocessor at once
  int warps;          // their warps
  int most_warps;     // that the multiprocessor takes
  const char* limit;  // "registers", "shared memory", "threads" or "blocks"
};

// By the tables of the appendix "Compute Capabilities" of the CUDA C++ Programming Guide: registers
// are given to warps in pieces of 256 from one of four parts of a multiprocessor, and a block has 1
// KiB of shared memory more than it asks for. Cards of capability 8.6 and 8.9 count the registers
// of sm_80. 0 blocks: a launch fails there.
Occupancy occupancy(const Card& card, const KernelResources& kernel, int threads,
                    std::int64_t dynamic_shared_bytes);

}  // namespace lamina::cuda
