// Products of matrices by the 128 threads of a warpgroup, by the PTX manual (wgmma.mma_async
// .m64nNk16 for bf16 with sums in f32). They run beside the threads until these wait. Compute
// capability 9.0 only: LAMINA_GPU_KERNEL_90(name, Params, max_threads, min_blocks, body) declares
// a kernel that uses them, and images for other GPUs contain a trap in place of its body.
//
//   gpu::Accumulator<128> sums;  // 64 x 128
//   sums.clear();
//   ...                          // operands are in shared memory:
//   gpu::wait_copies<0>(), gpu::fence_async(), gpu::sync();
//   gpu::fence_products(sums);
//   for (int step = 0; step < 4; ++step) gpu::warpgroup_multiply(sums, a + step, b + step);
//   gpu::commit_products();
//   gpu::wait_products<0>(sums);
//
// With w = warp index % 4, g = lane / 4 and t = lane % 4 a thread has
//   sums[n][0] and [1] of row 16 w + g, [2] and [3] of row + 8; of columns 8 n + 2 t and + 1;
//   RowFragment: registers 0 and 1 of rows 16 w + g and + 8, of columns 2 t and 2 t + 1; 2 and 3
//     likewise of columns + 8. The first of two numbers is in the low half.
//
// Operands in shared memory have the swizzle of 128 bytes: pieces of 1024 bytes, aligned to as
// many, have 8 rows of 8 units of 16 bytes, and unit u of row r is at place u ^ r.
//   along k: a row is a row of a (a column of b), with 64 values of k; 8 rows are a piece.
//   across k: a row is a value of k, with 64 rows of a (columns of b); 8 values of k are a piece.
#pragma once

#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda::gpu {

inline constexpr int kWarpgroupSize = 128;
inline constexpr int kSwizzledRow = 64;  // numbers
inline constexpr int kSwizzledPieceBytes = 1024;

// The place of unit `unit` of row `row` in a column of pieces, in numbers.
LAMINA_GPU_FUNCTION constexpr int swizzled(int row, int unit) {
  return row * kSwizzledRow + (unit ^ (row & 7)) * 8;
}

// The matrix descriptor of the manual: bits 0 to 13 the address, 16 to 29 the distance of 64 rows
// of a (across k only), 32 to 45 the distance of pieces, all in units of 16 bytes; 62 and 63: 1,
// the swizzle of 128 bytes.
template <bool kAlongK>
struct MatrixDescriptor {
  std::uint64_t bits;

  // The same rows, `steps` times 16 values of k later; along k at most 3 from the first.
  LAMINA_GPU_FUNCTION MatrixDescriptor operator+(int steps) const {
    constexpr int kStep = (kAlongK ? 32 : 2 * kSwizzledPieceBytes) / 16;
    return {bits + static_cast<std::uint64_t>(steps * kStep)};
  }
};

}  // namespace lamina::cuda::gpu

#ifdef __CUDACC__
#include "backends/cuda/gpu/device_warpgroup.h"
#else
#include "backends/cuda/gpu/emulated_warpgroup.h"
#endif

namespace lamina::cuda::gpu {

// Describes the matrix that begins with the piece at `first`; pieces follow each other.
// `next_rows`: bytes between 64 rows of a (columns of b) and the next 64, across k.
template <bool kAlongK>
LAMINA_GPU_FUNCTION MatrixDescriptor<kAlongK> describe_matrix(Shared<bfloat16> first,
                                                              int next_rows = 16) {
  const auto units = [](std::uint32_t bytes) { return std::uint64_t{(bytes & 0x3ffff) >> 4}; };
  return {units(shared_address(first)) | units(static_cast<std::uint32_t>(next_rows)) << 16 |
          units(kSwizzledPieceBytes) << 32 | std::uint64_t{1} << 62};
}

}  // namespace lamina::cuda::gpu
