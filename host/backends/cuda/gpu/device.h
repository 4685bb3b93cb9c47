// The functions and types of gpu.h, as nvcc compiles them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backends/cuda/gpu/address.h"

#define LAMINA_GPU_FUNCTION __device__ __forceinline__
// Before a loop over registers, which have no index.
#define LAMINA_GPU_UNROLL _Pragma("unroll")
#define LAMINA_GPU_KERNEL(name, Params) \
  LAMINA_GPU_WAITS_FIRST(name, Params,  \
                         extern "C" __global__ void name(const __grid_constant__ Params p))
#define LAMINA_GPU_KERNEL_BOUNDS(name, Params, max_threads, min_blocks) \
  LAMINA_GPU_WAITS_FIRST(name, Params,                                  \
                         LAMINA_GPU_KERNEL_EARLY(name, Params, max_threads, min_blocks))
#define LAMINA_GPU_WAITS_FIRST(name, Params, kernel)                  \
  static LAMINA_GPU_FUNCTION void name##_after_wait(const Params& p); \
  kernel {                                                            \
    ::lamina::cuda::gpu::wait_for_earlier();                          \
    name##_after_wait(p);                                             \
  }                                                                   \
  static LAMINA_GPU_FUNCTION void name##_after_wait(const Params& p)
// The body calls wait_for_earlier().
#define LAMINA_GPU_KERNEL_EARLY(name, Params, max_threads, min_blocks)  \
  extern "C" __global__ void __launch_bounds__(max_threads, min_blocks) \
      name(const __grid_constant__ Params p)
// The body of a kernel that exists for compute capability 9.0 only; other images stop there.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define LAMINA_GPU_BODY_90(...) __VA_ARGS__;
#else
#define LAMINA_GPU_BODY_90(...) __trap();
#endif
#define LAMINA_GPU_KERNEL_90(name, Params, max_threads, min_blocks, ...) \
  LAMINA_GPU_KERNEL_BOUNDS(name, Params, max_threads, min_blocks) {      \
    LAMINA_GPU_BODY_90(__VA_ARGS__)                                      \
  }
#define LAMINA_GPU_SHARED(T, name, N)                                 \
  __shared__ alignas(16) unsigned char name##_bytes[sizeof(T) * (N)]; \
  const ::lamina::cuda::gpu::Shared<T> name(reinterpret_cast<T*>(name##_bytes))

namespace lamina::cuda::gpu {

LAMINA_GPU_FUNCTION int thread_index() { return static_cast<int>(threadIdx.x); }
LAMINA_GPU_FUNCTION int num_threads() { return static_cast<int>(blockDim.x); }
LAMINA_GPU_FUNCTION int block_index() { return static_cast<int>(blockIdx.x); }
LAMINA_GPU_FUNCTION int block_index_y() { return static_cast<int>(blockIdx.y); }
LAMINA_GPU_FUNCTION int block_index_z() { return static_cast<int>(blockIdx.z); }
LAMINA_GPU_FUNCTION int num_blocks() { return static_cast<int>(gridDim.x); }
LAMINA_GPU_FUNCTION int num_blocks_y() { return static_cast<int>(gridDim.y); }
LAMINA_GPU_FUNCTION int num_blocks_z() { return static_cast<int>(gridDim.z); }

// A launch may begin before the one before it has ended (launch.h). Waits until all earlier ones
// have ended and their results can be read, then lets the next one begin.
LAMINA_GPU_FUNCTION void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// Copies the line of an address to the second cache.
LAMINA_GPU_FUNCTION void prefetch(Address at) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at.value));
}

LAMINA_GPU_FUNCTION void sync() { __syncthreads(); }
LAMINA_GPU_FUNCTION void sync_warp() { __syncwarp(); }

inline constexpr unsigned kAllLanes = 0xffffffffu;
template <typename T>
LAMINA_GPU_FUNCTION T shuffle(T x, int lane) {
  return __shfl_sync(kAllLanes, x, lane);
}
template <typename T>
LAMINA_GPU_FUNCTION T shuffle_xor(T x, int mask) {
  return __shfl_xor_sync(kAllLanes, x, mask);
}
// Lanes without a lane `n` above them keep their own value.
template <typename T>
LAMINA_GPU_FUNCTION T shuffle_down(T x, int n) {
  return __shfl_down_sync(kAllLanes, x, static_cast<unsigned>(n));
}
LAMINA_GPU_FUNCTION std::uint32_t ballot(bool b) { return __ballot_sync(kAllLanes, b); }
LAMINA_GPU_FUNCTION bool any(bool b) { return __any_sync(kAllLanes, b); }
LAMINA_GPU_FUNCTION bool all(bool b) { return __all_sync(kAllLanes, b); }

template <typename T>
class Global {
 public:
  Global() = default;
  LAMINA_GPU_FUNCTION explicit Global(Address a) : at_(reinterpret_cast<T*>(a.value)) {}
  LAMINA_GPU_FUNCTION explicit Global(T* at) : at_(at) {}
  template <typename U>
  requires std::is_same_v<T, const U> LAMINA_GPU_FUNCTION Global(Global<U> other)
      : at_(other.pointer()) {}
  LAMINA_GPU_FUNCTION explicit operator bool() const { return at_ != nullptr; }
  LAMINA_GPU_FUNCTION T& operator[](std::int64_t i) const { return at_[i]; }
  LAMINA_GPU_FUNCTION Global operator+(std::int64_t n) const { return Global(at_ + n); }
  LAMINA_GPU_FUNCTION T* pointer() const { return at_; }

 private:
  T* at_ = nullptr;
};

template <typename T>
class Shared {
 public:
  Shared() = default;
  LAMINA_GPU_FUNCTION explicit Shared(T* at) : at_(at) {}
  template <typename U>
  requires std::is_same_v<T, const U> LAMINA_GPU_FUNCTION Shared(Shared<U> other)
      : at_(other.pointer()) {}
  LAMINA_GPU_FUNCTION T& operator[](int i) const { return at_[i]; }
  LAMINA_GPU_FUNCTION Shared operator+(int n) const { return Shared(at_ + n); }
  LAMINA_GPU_FUNCTION T* pointer() const { return at_; }

 private:
  T* at_ = nullptr;
};

extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
template <typename T>
LAMINA_GPU_FUNCTION Shared<T> dynamic_shared(int first_byte = 0) {
  return Shared<T>(reinterpret_cast<T*>(dynamic_shared_bytes + first_byte));
}

template <int N, typename T>
LAMINA_GPU_FUNCTION Vector<std::remove_const_t<T>, N> load_vector(Global<T> x, std::int64_t i) {
  return *reinterpret_cast<const Vector<std::remove_const_t<T>, N>*>(x.pointer() + i);
}
template <int N, typename T>
LAMINA_GPU_FUNCTION void store_vector(Global<T> x, std::int64_t i, const Vector<T, N>& v) {
  *reinterpret_cast<Vector<T, N>*>(x.pointer() + i) = v;
}
template <int N, typename T>
LAMINA_GPU_FUNCTION Vector<std::remove_const_t<T>, N> load_vector(Shared<T> x, int i) {
  return *reinterpret_cast<const Vector<std::remove_const_t<T>, N>*>(x.pointer() + i);
}
template <int N, typename T>
LAMINA_GPU_FUNCTION void store_vector(Shared<T> x, int i, const Vector<T, N>& v) {
  *reinterpret_cast<Vector<T, N>*>(x.pointer() + i) = v;
}

// Integer atomics return the value before.
LAMINA_GPU_FUNCTION std::int32_t atomic_add(Global<std::int32_t> x, std::int64_t i,
                                            std::int32_t v) {
  return atomicAdd(&x[i], v);
}
LAMINA_GPU_FUNCTION std::uint32_t atomic_add(Global<std::uint32_t> x, std::int64_t i,
                                             std::uint32_t v) {
  return atomicAdd(&x[i], v);
}
LAMINA_GPU_FUNCTION std::uint64_t atomic_add(Global<std::uint64_t> x, std::int64_t i,
                                             std::uint64_t v) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(&x[i]),
                   static_cast<unsigned long long>(v));
}
LAMINA_GPU_FUNCTION std::int32_t atomic_max(Global<std::int32_t> x, std::int64_t i,
                                            std::int32_t v) {
  return atomicMax(&x[i], v);
}
LAMINA_GPU_FUNCTION std::int32_t atomic_add(Shared<std::int32_t> x, int i, std::int32_t v) {
  return atomicAdd(&x[i], v);
}
LAMINA_GPU_FUNCTION std::uint32_t atomic_add(Shared<std::uint32_t> x, int i, std::uint32_t v) {
  return atomicAdd(&x[i], v);
}
LAMINA_GPU_FUNCTION std::int32_t atomic_max(Shared<std::int32_t> x, int i, std::int32_t v) {
  return atomicMax(&x[i], v);
}

// Copies 4, 8 or 16 bytes, both places aligned to as many, without waiting.
template <int Bytes, typename T, typename From>
LAMINA_GPU_FUNCTION void copy_async(Shared<T> to, Global<From> from) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  static_assert(std::is_same_v<const T, const From>);
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to.pointer()));
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from.pointer())
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from.pointer()),
                 "n"(Bytes)
                 : "memory");
}
// Ends a group of copies.
LAMINA_GPU_FUNCTION void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most N groups of this thread are under way. Other threads see the data after a
// sync().
template <int N>
LAMINA_GPU_FUNCTION void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

}  // namespace lamina::cuda::gpu
