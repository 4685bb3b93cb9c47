// Sums and maxima of f32 and bf16 for one instruction set.
#include "backends/cpu/reduce/reduce.h"
#include "backends/cpu/simd/memory.h"

namespace lamina::cpu {
namespace {

// Number of elements of a run, or rows of columns, that are summed in f32 before f64 is used.
constexpr std::int64_t kRunBlock = 4096;
constexpr std::int64_t kRowBlock = 64;

LAMINA_SIMD float scalar(float x) { return x; }
LAMINA_SIMD float scalar(bfloat16 x) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16);
}

struct Sum {
  static constexpr float kStart = 0.0f;
  LAMINA_SIMD static Float fold(Float a, Float b) { return a + b; }
  LAMINA_SIMD static double fold(double a, double b) { return a + b; }
};
struct Max {
  static constexpr float kStart = -__builtin_inff();
  LAMINA_SIMD static Float fold(Float a, Float b) { return max_nan(a, b); }
  LAMINA_SIMD static double fold(double a, double b) { return a != a || a > b ? a : b; }
};

template <typename Op>
LAMINA_SIMD double fold_lanes(Float x) {
  float lanes[kLanes];
  store(lanes, x);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i)
      lanes[i] = static_cast<float>(
          Op::fold(static_cast<double>(lanes[i]), static_cast<double>(lanes[i + half])));
  return static_cast<double>(lanes[0]);
}

template <typename Op, typename T>
void fold_run(ReduceTotal* total, const void* x, std::int64_t n, std::int64_t stride) {
  const T* p = static_cast<const T*>(x);
  if (stride != 1) {
    for (std::int64_t i = 0; i < n; ++i)
      total->f = Op::fold(total->f, static_cast<double>(scalar(p[i * stride])));
    return;
  }
  for (std::int64_t first = 0; first < n; first += kRunBlock) {
    const std::int64_t end = first + kRunBlock < n ? first + kRunBlock : n;
    Float part[4] = {splat(Op::kStart), splat(Op::kStart), splat(Op::kStart), splat(Op::kStart)};
    std::int64_t i = first;
    for (; i + 4 * kLanes <= end; i += 4 * kLanes)
      for (int k = 0; k < 4; ++k) part[k] = Op::fold(part[k], load(p + i + k * kLanes));
    for (; i + kLanes <= end; i += kLanes) part[0] = Op::fold(part[0], load(p + i));
    double block = fold_lanes<Op>(Op::fold(Op::fold(part[0], part[1]), Op::fold(part[2], part[3])));
    for (; i < end; ++i) block = Op::fold(block, static_cast<double>(scalar(p[i])));
    total->f = Op::fold(total->f, block);
  }
}

template <typename Op, typename T>
void fold_columns(ReduceTotal* totals, const void* x, std::int64_t num_rows,
                  std::int64_t row_stride, std::int64_t n, std::int64_t column_stride) {
  const T* p = static_cast<const T*>(x);
  if (column_stride != 1) {
    for (std::int64_t row = 0; row < num_rows; ++row)
      for (std::int64_t i = 0; i < n; ++i)
        totals[i].f = Op::fold(
            totals[i].f, static_cast<double>(scalar(p[row * row_stride + i * column_stride])));
    return;
  }
  float block[kReduceColumns];
  for (std::int64_t first = 0; first < num_rows; first += kRowBlock) {
    const std::int64_t end = first + kRowBlock < num_rows ? first + kRowBlock : num_rows;
    for (std::int64_t i = 0; i < n; ++i) block[i] = Op::kStart;
    for (std::int64_t row = first; row < end; ++row)
      for_lanes(n, [&](std::int64_t i, int count) {
        store_some(
            block + i,
            Op::fold(load_some(block + i, count), load_some(p + row * row_stride + i, count)),
            count);
      });
    for (std::int64_t i = 0; i < n; ++i)
      totals[i].f = Op::fold(totals[i].f, static_cast<double>(block[i]));
  }
}

constexpr ReduceFunctions kFunctions = {
    .sum_f32 = {fold_run<Sum, float>, fold_columns<Sum, float>},
    .sum_bf16 = {fold_run<Sum, bfloat16>, fold_columns<Sum, bfloat16>},
    .max_f32 = {fold_run<Max, float>, fold_columns<Max, float>},
    .max_bf16 = {fold_run<Max, bfloat16>, fold_columns<Max, bfloat16>},
};

}  // namespace

constinit const ReduceFunctions ReduceFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
