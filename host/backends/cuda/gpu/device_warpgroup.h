// The functions and types of gpu/warpgroup.h, as nvcc compiles them for compute capability 9.0.
#pragma once

#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda::gpu {

// Sums of 64 rows and kColumns columns.
template <int kColumns>
class Accumulator {
 public:
  using Group = float[4];
  LAMINA_GPU_FUNCTION Group& operator[](int n) { return values_[n]; }
  LAMINA_GPU_FUNCTION void clear() {
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kColumns / 8; ++n) LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) values_[n][i] = 0;
  }
  // Keeps the compiler from moving accesses over this place.
  LAMINA_GPU_FUNCTION void hold() {
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kColumns / 8; ++n) LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(values_[n][i])::"memory");
  }

 private:
  float values_[kColumns / 8][4];
};

// 64 rows of 16 numbers of a product's first operand.
class RowFragment {
 public:
  using Registers = std::uint32_t[4];
  LAMINA_GPU_FUNCTION Registers& registers() { return values_; }
  LAMINA_GPU_FUNCTION void hold() {
    LAMINA_GPU_UNROLL
    for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(values_[i])::"memory");
  }

 private:
  std::uint32_t values_[4];
};

extern __shared__ __align__(1024) unsigned char swizzled_shared_bytes[];
// Dynamic shared memory, aligned for pieces.
LAMINA_GPU_FUNCTION Shared<bfloat16> swizzled_shared(int first_byte = 0) {
  return Shared<bfloat16>(reinterpret_cast<bfloat16*>(swizzled_shared_bytes + first_byte));
}
LAMINA_GPU_FUNCTION std::uint32_t shared_address(Shared<bfloat16> x) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(x.pointer()));
}

// Makes what this thread wrote to shared memory visible to products after the next sync().
LAMINA_GPU_FUNCTION void fence_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
template <typename R>
LAMINA_GPU_FUNCTION void hold_all(R& registers) {
  registers.hold();
}
template <typename R, int N>
LAMINA_GPU_FUNCTION void hold_all(R (&registers)[N]) {
  LAMINA_GPU_UNROLL
  for (int i = 0; i < N; ++i) registers[i].hold();
}
// Before products whose registers this thread has accessed. `registers`: all of these, sums and
// rows, one by one or in arrays.
template <typename... Registers>
LAMINA_GPU_FUNCTION void fence_products(Registers&... registers) {
  (hold_all(registers), ...);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// Ends a group of products.
LAMINA_GPU_FUNCTION void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most N groups are under way. `registers` are the ones accessed next, one by one or
// in arrays.
template <int N, typename... Registers>
LAMINA_GPU_FUNCTION void wait_products(Registers&... registers) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
  (hold_all(registers), ...);
}

#define LAMINA_SUMS_1(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define LAMINA_SUMS_4(n) \
  LAMINA_SUMS_1(n), LAMINA_SUMS_1(n + 1), LAMINA_SUMS_1(n + 2), LAMINA_SUMS_1(n + 3)
#define LAMINA_SUMS_OF_64 LAMINA_SUMS_4(0), LAMINA_SUMS_4(4)
#define LAMINA_SUMS_OF_128 LAMINA_SUMS_OF_64, LAMINA_SUMS_4(8), LAMINA_SUMS_4(12)
#define LAMINA_NAMES_OF_64                                                 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LAMINA_NAMES_OF_128                                                          \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// d[64, kColumns] += a[64, 16] b[16, kColumns].
template <int kColumns, bool kAlongA, bool kAlongB>
LAMINA_GPU_FUNCTION void warpgroup_multiply(Accumulator<kColumns>& d, MatrixDescriptor<kAlongA> a,
                                            MatrixDescriptor<kAlongB> b) {
  static_assert(kColumns == 64 || kColumns == 128);
  if constexpr (kColumns == 64)
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" LAMINA_NAMES_OF_64
                 "}, %32, %33, 1, 1, 1, %34, %35;"
                 : LAMINA_SUMS_OF_64
                 : "l"(a.bits), "l"(b.bits), "n"(!kAlongA), "n"(!kAlongB));
  else
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" LAMINA_NAMES_OF_128
                 "}, %64, %65, 1, 1, 1, %66, %67;"
                 : LAMINA_SUMS_OF_128
                 : "l"(a.bits), "l"(b.bits), "n"(!kAlongA), "n"(!kAlongB));
}
template <int kColumns, bool kAlongB>
LAMINA_GPU_FUNCTION void warpgroup_multiply(Accumulator<kColumns>& d, RowFragment& rows,
                                            MatrixDescriptor<kAlongB> b) {
  static_assert(kColumns == 64 || kColumns == 128);
  const std::uint32_t(&a)[4] = rows.registers();
  if constexpr (kColumns == 64)
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" LAMINA_NAMES_OF_64
                 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, %37;"
                 : LAMINA_SUMS_OF_64
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits), "n"(!kAlongB));
  else
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" LAMINA_NAMES_OF_128
                 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, %69;"
                 : LAMINA_SUMS_OF_128
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits), "n"(!kAlongB));
}

#undef LAMINA_SUMS_1
#undef LAMINA_SUMS_4
#undef LAMINA_SUMS_OF_64
#undef LAMINA_SUMS_OF_128
#undef LAMINA_NAMES_OF_64
#undef LAMINA_NAMES_OF_128

}  // namespace lamina::cuda::gpu
