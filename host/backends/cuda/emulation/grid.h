// Runs kernels of the emulated GPU: block by block, the threads of a block as fibers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/gpu/emulated_thread.h"

namespace lamina::cuda::emulation {

struct NumberLimits {
  std::uint64_t min = 0, max = std::numeric_limits<std::uint64_t>::max();
};

// Returns the number in an environment variable of tests, or `otherwise` if it is not set.
// Errors (exit 2): the value is no number within the limits.
std::uint64_t number_in_environment(const char* name, std::uint64_t otherwise, NumberLimits limits);
// Likewise for a part of the variable's value.
std::uint64_t read_number(const char* name, std::string_view text, NumberLimits limits);

// Limits of an H200. shared_bytes_of_block() may be lower.
inline constexpr int kMostThreads = 1024;
inline constexpr std::int64_t kMostSharedBytes = 227 << 10;
inline constexpr std::int64_t kMostStaticSharedBytes = 48 << 10;
inline constexpr std::array<std::int64_t, 3> kMostGridBlocks = {0x7fffffff, 65535, 65535};

struct GridShape {
  std::array<int, 3> blocks = {1, 1, 1};
  int threads = 1;
  std::int64_t shared_bytes = 0;
};

// Runs all blocks, which may use the memory of GPU number `gpu`. Throws DeviceError with kernel,
// block and thread if a thread breaks a rule. REQUIRES: the shape is within the limits. [one thread
// at a time]
void run_grid(const gpu::EmulatedKernel& kernel, const void* params, const GridShape& shape,
              int gpu = 0);

// Returns the kernel compiled for the emulated GPU, or null. Throws InternalError if several have
// the name.
const gpu::EmulatedKernel* find_kernel(const char* name);

// Returns the names of all kernels of the program.
std::vector<std::string> kernel_names();

// Returns the name of the kernel's module as lamina_cuda.so has it; "" for kernels of tests and
// plugins.
std::string module_of(const gpu::EmulatedKernel& kernel);
// Returns the names of the modules of all kernels of the program; "" is the last one.
std::vector<std::string> module_names();

// The orders of threads and blocks depend on it; at first LAMINA_GPU_SEED, or 1. Launches after the
// same set_seed() run in the same orders. [no launch runs]
void set_seed(std::uint64_t seed);
// The compute capability of the emulated GPUs, LAMINA_GPU_CAPABILITY: 80, 86, 89 or 90, as an H200
// has, which is the default. Throws UserError for another one.
int capability();
void set_capability(int capability);  // of later launches, in tests
// Shared bytes that a block may have with that capability.
std::int64_t shared_bytes_of_block();
// Reports accesses of two threads to the same shared bytes without a sync between, at least one of
// them a write; at first LAMINA_GPU_RACES=1. [no launch runs]
void check_races(bool on);
bool checks_races();

}  // namespace lamina::cuda::emulation
