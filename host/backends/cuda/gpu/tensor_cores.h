// Products of small matrices by all 32 lanes of a warp, in the layouts of the PTX manual
// (mma.m16n8k16 and ldmatrix): with g = lane / 4 and t = lane % 4,
//   a[0] row g, a[1] row g + 8, of columns 2t and 2t + 1; a[2] and a[3] likewise of columns + 8;
//   b[0] rows 2t and 2t + 1, b[1] rows + 8, of column g;
//   d[0] and d[1] row g, d[2] and d[3] row g + 8, of columns 2t and 2t + 1.
// A register of 32 bits has two 16-bit numbers; the first is in the low half.
#pragma once

#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda::gpu {

#ifdef __CUDACC__

// d[16, 8] += a[16, 16] * b[16, 8]; T is bfloat16 or float16, sums are f32.
template <typename T>
LAMINA_GPU_FUNCTION void mma_16x8x16(float (&d)[4], const std::uint32_t (&a)[4],
                                     const std::uint32_t (&b)[2]) {
  if constexpr (std::is_same_v<T, bfloat16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Loads four 8 x 8 matrices of 16-bit numbers. Lane i names row i % 8 of matrix i / 8, 16 bytes,
// aligned; register j gets columns 2t and 2t + 1 of row g of matrix j, or of its transpose.
template <bool Transposed = false, typename T>
LAMINA_GPU_FUNCTION void load_matrix(std::uint32_t (&out)[4], Shared<T> row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row.pointer()));
  if constexpr (Transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address)
                 : "memory");
}

#else

namespace detail {

struct MmaOperands {
  float* d;
  const std::uint32_t* a;
  const std::uint32_t* b;
};
template <typename T>
float half_of(std::uint32_t pair, int which) {
  return widen(T{static_cast<std::uint16_t>(pair >> (16 * which))});
}
template <typename T>
void multiply(void* const* lanes) {
  float a[16][16], b[16][8];
  for (int l = 0; l < 32; ++l) {
    const auto& mine = *static_cast<const MmaOperands*>(lanes[l]);
    const int g = l / 4, t = l % 4;
    for (int r = 0; r < 4; ++r)
      for (int h = 0; h < 2; ++h)
        a[g + r % 2 * 8][2 * t + h + r / 2 * 8] = half_of<T>(mine.a[r], h);
    for (int r = 0; r < 2; ++r)
      for (int h = 0; h < 2; ++h) b[2 * t + h + r * 8][g] = half_of<T>(mine.b[r], h);
  }
  for (int l = 0; l < 32; ++l) {
    const auto& mine = *static_cast<const MmaOperands*>(lanes[l]);
    for (int r = 0; r < 4; ++r) {
      const int row = l / 4 + r / 2 * 8, column = l % 4 * 2 + r % 2;
      for (int k = 0; k < 16; ++k) mine.d[r] += a[row][k] * b[k][column];
    }
  }
}

struct MatrixRow {
  const std::uint16_t* row;
  std::uint32_t* out;
};
template <bool Transposed>
void load_matrices(void* const* lanes) {
  for (int l = 0; l < 32; ++l)
    for (int j = 0; j < 4; ++j) {
      std::uint32_t out = 0;
      for (int h = 0; h < 2; ++h) {
        const int row = Transposed ? l % 4 * 2 + h : l / 4,
                  column = Transposed ? l / 4 : l % 4 * 2 + h;
        std::uint16_t bits;
        std::memcpy(&bits, static_cast<const MatrixRow*>(lanes[8 * j + row])->row + column, 2);
        out |= std::uint32_t{bits} << (16 * h);
      }
      static_cast<const MatrixRow*>(lanes[l])->out[j] = out;
    }
}

}  // namespace detail

template <typename T>
void mma_16x8x16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                 SourceLine where = SourceLine::current()) {
  static_assert(std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>);
  detail::MmaOperands mine{d, a, b};
  in_warp(&mine, detail::multiply<T>, where);
}

template <bool Transposed = false, typename T>
void load_matrix(std::uint32_t (&out)[4], Shared<T> row, SourceLine where = SourceLine::current()) {
  static_assert(sizeof(T) == 2);
  const T* const at = row.at(0, 8);
  detail::check_aligned("shared", at, 16);
  detail::note(at, 16, false);
  detail::MatrixRow mine{reinterpret_cast<const std::uint16_t*>(at), out};
  in_warp(&mine, detail::load_matrices<Transposed>, where);
}

#endif

}  // namespace lamina::cuda::gpu
