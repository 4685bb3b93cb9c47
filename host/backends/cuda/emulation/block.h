// The threads of one block, as fibers: a thread runs until it waits or ends.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/emulation/fiber.h"
#include "backends/cuda/emulation/grid.h"
#include "backends/cuda/emulation/order.h"
#include "backends/cuda/emulation/shared_memory.h"
#include "backends/cuda/emulation/warpgroup_products.h"

namespace lamina::cuda::emulation {

class BlockThreads {
 public:
  BlockThreads(const gpu::EmulatedKernel& kernel, const void* params, const GridShape& shape,
               int gpu);
  ~BlockThreads();
  BlockThreads(const BlockThreads&) = delete;
  BlockThreads& operator=(const BlockThreads&) = delete;

  // Runs one block.
  void run(const std::array<int, 3>& index, OrderDraws draws);

  // The block whose threads run now, on this thread of the host.
  static BlockThreads& current();

  // Called by the running thread.
  void wait_for_block(const std::source_location& where);
  void in_warp(void* operands, void (*collective)(void* const*), const std::source_location& where);
  void in_warpgroup(void* operands, void (*collective)(void* const*),
                    const std::source_location& where);
  void multiply(void* const* lanes) { products_->multiply(lanes); }
  void fence_async();
  void wait_until_products(int groups);
  void note(const std::byte* at, std::int64_t bytes, bool writes);
  void add_copy(void* to, const void* from, std::int64_t bytes);
  void commit_copies();
  void wait_until_copies(int groups);
  // Returns the allocation of an address.
  gpu::detail::Located locate(gpu::Address address);
  // Returns eg: "softmax_f32, block 3, thread 17".
  std::string here() const;

  SharedMemory shared;

 private:
  enum class Wait { nothing, block, warp, warpgroup };
  struct Copy {
    void* to;
    const void* from;
    std::int64_t bytes;
    int group;
  };
  struct Thread {
    gpu::EmulatedThread visible;
    Fiber* fiber = nullptr;  // null before the start
    bool ended = false;
    Wait wait = Wait::nothing;
    std::source_location where;  // of the wait
    std::deque<Copy> copies;
    int copy_group = 0;
  };
  // A warp or a warpgroup.
  struct Lanes {
    int arrived = 0;
    std::vector<void*> operands;
    void (*collective)(void* const*) = nullptr;
    std::source_location where;
  };

  void start(const std::array<int, 3>& index);
  void push_ready(int first, int count, int except);
  int take_ready();
  bool next_is_fresh() const;
  void resume(int thread);
  static void serve(Fiber& fiber);
  void run_threads(Fiber& fiber);
  void run_thread(int thread);
  void suspend(Wait wait, const std::source_location& where);
  // Returns true in the last of `count` lanes, after it has called `collective`.
  bool arrive(Lanes& lanes, int count, Wait wait, void* operands, void (*collective)(void* const*),
              const std::source_location& where);
  [[noreturn]] void report_stuck() const;
  Thread& me() { return threads_[static_cast<std::size_t>(gpu::this_thread->index)]; }

  const gpu::EmulatedKernel& kernel_;
  const void* params_;
  int gpu_;
  gpu::EmulatedLaunch launch_;
  gpu::EmulatedBlock block_;
  OrderDraws draws_{0};
  std::vector<Thread> threads_;
  std::vector<Lanes> warps_, warpgroups_;
  std::unique_ptr<WarpgroupProducts> products_;  // of a kernel that has any
  int at_barrier_ = 0, num_ended_ = 0;
  std::source_location barrier_line_;
  std::deque<int> ready_;
  bool newest_first_ = false;
  std::exception_ptr error_;
  // Allocations found lately; none is freed while the grid runs.
  struct Found {
    std::uint64_t begin = 0, end = 0;
    gpu::detail::CheckedMemory extent;
  };
  std::array<Found, 8> found_;
  std::size_t next_found_ = 0;
};

}  // namespace lamina::cuda::emulation
