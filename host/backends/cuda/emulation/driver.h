// A fake driver with emulated GPUs: streams whose work runs late and in any order that
// events allow (backends/emulated), memory that the host and other GPUs cannot access, kernels
// compiled for the host. Calls that break a rule of the driver's documentation return its error.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "backends/cuda/driver/api.h"
#include "backends/cuda/modules.h"
#include "runtime/backend.h"

namespace lamina::cuda::emulation {

// The functions of the fake driver, and its images: one for each file of kernels of the program,
// and one for the kernels of tests. [any thread]
const DriverApi& driver();
std::span<const ModuleImage> images();

// The number of GPUs, at first LAMINA_GPU_COUNT, or 1; at most 8. A smaller number removes the last
// ones. REQUIRES: these are not open.
void set_num_gpus(int count);
int num_gpus();

// Opens an emulated GPU. emulated_gpu() is the first one, open until the process ends. [any thread]
std::unique_ptr<Backend> open_emulated_gpu(int ordinal = 0);
const Backend& emulated_gpu();

// Adds work to a stream: for fake libraries. Returns an error as cuLaunchKernel does.
DriverResult add_work(StreamHandle stream, std::function<void()> work);

// Lets a later call of a GPU fail, once: the allocation, launch or piece of work number `after`,
// counted from 0. Allocations return out_of_memory; launches and work fail with `result`, like a
// GPU that is lost; work that hangs ends at reset_gpu().
enum class FaultPlace { allocation, launch, work, hang };
void fail_later(FaultPlace place, int after, int gpu = 0,
                DriverResult result = DriverResult::launch_failed);

// Counts of calls since the start of the process.
struct DriverCounts {
  std::int64_t captures, instantiations, updates, replays;  // of graphs
  std::int64_t launches;                                    // of kernels, also captured ones
  std::int64_t loads;                                       // of modules of the program
  std::int64_t waits;          // of the host for work: also frees, which wait
  std::int64_t allocations;    // of any memory
  std::int64_t bytes_to_host;  // copied from GPUs
};
DriverCounts driver_counts();

// Bytes of pinned memory; the largest number since the last call of start_pinned_count().
std::size_t most_pinned_bytes();
void start_pinned_count();

// Fills allocations of that size with NaN before each replay of a graph: arenas, whose contents a
// replay may not depend on.
void poison_at_replay(std::size_t bytes);
void stop_poison();

// As on a GPU, all calls fail after work has failed. Makes the GPUs usable again. [no work runs]
void reset_gpu();

}  // namespace lamina::cuda::emulation
