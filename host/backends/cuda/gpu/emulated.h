// The functions and types of gpu.h on the emulated GPU: every access is checked, and threads are
// fibers that backends/cuda/emulation runs in an order drawn from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#include "backends/cuda/gpu/address.h"
#include "backends/cuda/gpu/emulated_memory.h"
#include "backends/cuda/gpu/emulated_thread.h"

#define LAMINA_GPU_FUNCTION inline
#define LAMINA_GPU_UNROLL
#define LAMINA_GPU_KERNEL(name, Params) LAMINA_GPU_KERNEL_BOUNDS(name, Params, 1024, 1)
#define LAMINA_GPU_KERNEL_BOUNDS(name, Params, max_threads, min_blocks) \
  LAMINA_GPU_EMULATED_KERNEL(name, Params, max_threads, false, first)
#define LAMINA_GPU_KERNEL_EARLY(name, Params, max_threads, min_blocks) \
  LAMINA_GPU_EMULATED_KERNEL(name, Params, max_threads, false, in_body)
#define LAMINA_GPU_KERNEL_90(name, Params, max_threads, min_blocks, ...) \
  LAMINA_GPU_EMULATED_KERNEL(name, Params, max_threads, true, first) { __VA_ARGS__; }
#define LAMINA_GPU_EMULATED_KERNEL(name, Params, max_threads, has_warpgroups, waits)         \
  static void name(const Params& p);                                                         \
  [[maybe_unused]] static const ::lamina::cuda::gpu::EmulatedKernel name##_emulated(         \
      #name, sizeof(Params), max_threads,                                                    \
      [](const void* params) { name(*static_cast<const Params*>(params)); }, has_warpgroups, \
      ::lamina::cuda::gpu::EmulatedWait::waits, __BASE_FILE__);                              \
  static void name([[maybe_unused]] const Params& p)
#define LAMINA_GPU_SHARED(T, name, N)         \
  static constexpr char name##_key = 0;       \
  const ::lamina::cuda::gpu::Shared<T> name = \
      ::lamina::cuda::gpu::detail::static_shared<T>(&name##_key, N)

namespace lamina::cuda::gpu {

inline int thread_index() { return this_thread->index; }
inline int num_threads() { return this_thread->launch->num_threads; }
inline int block_index() { return this_thread->block->index[0]; }
inline int block_index_y() { return this_thread->block->index[1]; }
inline int block_index_z() { return this_thread->block->index[2]; }
inline int num_blocks() { return this_thread->launch->num_blocks[0]; }
inline int num_blocks_y() { return this_thread->launch->num_blocks[1]; }
inline int num_blocks_z() { return this_thread->launch->num_blocks[2]; }

inline void wait_for_earlier() { this_thread->has_waited = true; }
inline void prefetch(Address at) {
  const detail::Located found = detail::locate(at);
  detail::check_inside("global", found.extent, found.offset, 1);
}

using SourceLine = std::source_location;

inline void sync(SourceLine where = SourceLine::current()) { wait_for_block(where); }
inline void sync_warp(SourceLine where = SourceLine::current()) {
  in_warp(nullptr, nullptr, where);
}

namespace detail {

template <typename T>
struct Shuffled {
  T in;
  int from;
  T out;
  static void run(void* const* lanes) {
    for (int i = 0; i < 32; ++i) {
      auto& mine = *static_cast<Shuffled*>(lanes[i]);
      mine.out = static_cast<const Shuffled*>(lanes[mine.from & 31])->in;
    }
  }
};
template <typename T>
T shuffled(T x, int from, const SourceLine& where) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  Shuffled<T> mine{x, from, x};
  in_warp(&mine, Shuffled<T>::run, where);
  return mine.out;
}

struct Vote {
  bool in;
  std::uint32_t out;
  static void run(void* const* lanes);
};

}  // namespace detail

template <typename T>
T shuffle(T x, int lane, SourceLine where = SourceLine::current()) {
  return detail::shuffled(x, lane, where);
}
template <typename T>
T shuffle_xor(T x, int mask, SourceLine where = SourceLine::current()) {
  return detail::shuffled(x, (thread_index() & 31) ^ mask, where);
}
template <typename T>
T shuffle_down(T x, int n, SourceLine where = SourceLine::current()) {
  const int lane = thread_index() & 31;
  return detail::shuffled(x, lane + n < 32 ? lane + n : lane, where);
}
inline std::uint32_t ballot(bool b, SourceLine where = SourceLine::current()) {
  detail::Vote mine{b, 0};
  in_warp(&mine, detail::Vote::run, where);
  return mine.out;
}
inline bool any(bool b, SourceLine where = SourceLine::current()) { return ballot(b, where) != 0; }
inline bool all(bool b, SourceLine where = SourceLine::current()) {
  return ballot(b, where) == ~0u;
}

}  // namespace lamina::cuda::gpu
