// Our own tile product for one instruction set.
//
// Every output is one chain of multiply-adds over k in order, so its bits do not depend on how
// [m, n] was cut into tiles.
#include "backends/cpu/gemm/tile_simd.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/simd/simd.h"

namespace lamina::cpu {
namespace {

// Sums in registers: kRows rows of A times kVectors vectors of B.
using Lanes = Vec<float, kNativeBytes / 4>;
constexpr int kNumLanes = kNativeBytes / 4;
#if defined(__AVX512F__)
constexpr int kRows = 8, kVectors = 3;
#elif defined(__AVX2__)
constexpr int kRows = 4, kVectors = 3;
#else
constexpr int kRows = 4, kVectors = 2;
#endif
constexpr std::int64_t kWidth = kVectors * kNumLanes;

inline float load_element(const void* base, std::int64_t index, bool bf16) {
  if (!bf16) return static_cast<const float*>(base)[index];
  return widen(static_cast<const std::uint16_t*>(base)[index]);
}

// packed[k][width] = source(k, j), zero for j >= count: the panel layout of both operands.
template <bool kBf16>
void pack_panel(const void* source, std::int64_t k_stride, std::int64_t j_stride,
                std::int64_t depth, std::int64_t count, std::int64_t width, float* packed) {
  if (j_stride == 1) {
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t j = 0; j < count; ++j)
        packed[k * width + j] = load_element(source, k * k_stride + j, kBf16);
  } else {
    for (std::int64_t j = 0; j < count; ++j)
      for (std::int64_t k = 0; k < depth; ++k)
        packed[k * width + j] = load_element(source, k * k_stride + j * j_stride, kBf16);
  }
  for (std::int64_t k = 0; k < depth; ++k)
    for (std::int64_t j = count; j < width; ++j) packed[k * width + j] = 0.0f;
}

void pack(const void* source, std::int64_t k_stride, std::int64_t j_stride, std::int64_t depth,
          std::int64_t count, std::int64_t width, bool bf16, float* packed) {
  (bf16 ? pack_panel<true> : pack_panel<false>)(source, k_stride, j_stride, depth, count, width,
                                                packed);
}

const void* offset(const void* base, std::int64_t elements, bool bf16) {
  return static_cast<const char*>(base) + elements * (bf16 ? 2 : 4);
}

// sums[kRows][ld] += A panel * B panel; the sums live in registers over the whole depth.
void multiply_panels(const float* a, const float* b, std::int64_t depth, float* sums,
                     std::int64_t ld) {
  Lanes sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = load_raw<Lanes>(sums + r * ld + v * kNumLanes);
  for (std::int64_t k = 0; k < depth; ++k) {
    Lanes column[kVectors];
    for (int v = 0; v < kVectors; ++v) column[v] = load_raw<Lanes>(b + k * kWidth + v * kNumLanes);
    for (int r = 0; r < kRows; ++r) {
      const Lanes row = splat<Lanes>(a[k * kRows + r]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(row, column[v], sum[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) store_raw(sums + r * ld + v * kNumLanes, sum[r][v]);
}

void finish_row(const TileArguments& t, const float* sums, std::int64_t row) {
  for (std::int64_t j = 0; j < t.n; ++j) {
    const std::int64_t at = row * t.ldc + j;
    float value = sums[j];
    if (t.bias != nullptr) value += load_element(t.bias, j, t.bf16_bias);
    if (t.accumulate) value += load_element(t.c, at, t.bf16_out);
    if (t.bf16_out)
      static_cast<std::uint16_t*>(t.c)[at] = narrow(value);
    else
      static_cast<float*>(t.c)[at] = value;
  }
}

void multiply_tile(const TileArguments& t) {
  const std::int64_t num_panels = divide_up(t.n, kWidth);
  const std::int64_t ld = num_panels * kWidth;
  const std::int64_t num_slabs = divide_up(t.m, kRows);
  float* sums = t.scratch;
  float* b_block = sums + num_slabs * kRows * ld;
  float* a_slab = b_block + kTileDepth * ld;
  std::fill(sums, b_block, 0.0f);
  for (std::int64_t k = 0; k < t.k; k += kTileDepth) {
    const std::int64_t depth = std::min(kTileDepth, t.k - k);
    for (std::int64_t p = 0; p < num_panels; ++p)
      pack(offset(t.b, k * t.b_row_stride + p * kWidth * t.b_col_stride, t.bf16_in), t.b_row_stride,
           t.b_col_stride, depth, std::min(kWidth, t.n - p * kWidth), kWidth, t.bf16_in,
           b_block + p * kWidth * kTileDepth);
    for (std::int64_t slab = 0; slab < num_slabs; ++slab) {
      const std::int64_t row = slab * kRows;
      pack(offset(t.a, k * t.a_col_stride + row * t.a_row_stride, t.bf16_in), t.a_col_stride,
           t.a_row_stride, depth, std::min<std::int64_t>(kRows, t.m - row), kRows, t.bf16_in,
           a_slab);
      for (std::int64_t p = 0; p < num_panels; ++p)
        multiply_panels(a_slab, b_block + p * kWidth * kTileDepth, depth,
                        sums + row * ld + p * kWidth, ld);
    }
  }
  for (std::int64_t row = 0; row < t.m; ++row) finish_row(t, sums + row * ld, row);
}

static_assert(kTilePanelColumns % kWidth == 0 && kTilePanelRows % kRows == 0);

constexpr TileFunctions kFunctions = {.multiply = multiply_tile, .name = "tiles " LAMINA_ISA_NAME};

}  // namespace

constinit const TileFunctions TileFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
