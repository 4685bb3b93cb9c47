// Threads, warps and blocks of the emulated GPU, as kernels see them. The functions are in
// backends/cuda/emulation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <source_location>

namespace lamina::cuda::gpu {

struct EmulatedLaunch {
  const char* kernel = "";
  int num_threads = 0;
  std::array<int, 3> num_blocks = {};
};
struct EmulatedBlock {
  std::array<int, 3> index = {};
};
struct EmulatedThread {
  int index = 0;
  const EmulatedBlock* block = nullptr;
  const EmulatedLaunch* launch = nullptr;
  bool watches_shared = false;  // accesses to shared memory are noted
  bool has_waited = true;       // for the launches before this one
  // Products of the warpgroup (gpu/warpgroup.h): the group that is open, and the last group that
  // has ended.
  int product_group = 1, products_done = 0;
};

// The thread that runs now.
[[gnu::tls_model("initial-exec")]] extern thread_local constinit EmulatedThread* this_thread;

// The place where a kernel waits for earlier launches; `never` is for kernels of plugins.
enum class EmulatedWait { never, first, in_body };

// A kernel compiled for the emulated GPU; a constant of each kernel, which enters it into a list.
struct EmulatedKernel {
  EmulatedKernel(const char* name, std::size_t params_bytes, int max_threads,
                 void (*run)(const void* params), bool has_warpgroups = false,
                 EmulatedWait wait = EmulatedWait::never, const char* file = "");
  const char* name;
  std::size_t params_bytes;
  int max_threads;
  bool has_warpgroups;  // declared by LAMINA_GPU_KERNEL_90
  EmulatedWait wait;
  const char* file;                 // the one that was compiled; "" for kernels of plugins
  void (*run)(const void* params);  // one thread
  const EmulatedKernel* next;       // in the list
};

// Ends the launch with an error that names the kernel, the block and the thread.
[[noreturn, gnu::cold]] void fault(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Returns when all threads of the block wait at the same line.
void wait_for_block(const std::source_location& where);

// Waits for all 32 lanes of the warp, which must call it at the same line; then one of them calls
// `run` with the operands of all, and all return.
void in_warp(void* operands, void (*run)(void* const* lanes), const std::source_location& where);
// The same for the 128 threads of a warpgroup.
void in_warpgroup(void* operands, void (*run)(void* const* lanes),
                  const std::source_location& where);

}  // namespace lamina::cuda::gpu
