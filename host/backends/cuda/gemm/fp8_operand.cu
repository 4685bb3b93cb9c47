// Operands of products in FP8: rows in bf16, which are rounded, and blocks in FP8, whose scales are
// moved apart from their numbers. Bound by memory: a warp reads 128 columns of a row with one load
// of each lane, and writes them with one store.
#include "backends/cuda/gemm/params.h"
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/gpu/sums.h"
#include "backends/cuda/stored/numbers.h"

namespace lamina::cuda {
namespace {

constexpr int kGroup = 128, kOfLane = kGroup / gpu::kWarpSize;  // columns

// Calls read(group, numbers), which sets the numbers of this lane and returns the scale, for the
// groups of all rows.
template <typename Read>
LAMINA_GPU_FUNCTION void write_operand(const Fp8OperandParams& p, const Read& read) {
  const gpu::Global<std::uint8_t> numbers(p.numbers);
  const gpu::Global<float> scales(p.scales);
  const std::int64_t in_row = p.width / kGroup, step = gpu::num_indices() / gpu::kWarpSize;
  for (std::int64_t group = gpu::first_index() / gpu::kWarpSize; group < p.padded_rows * in_row;
       group += step) {
    const std::int64_t row = group / in_row;
    gpu::Vector<std::uint8_t, kOfLane> out = {};
    const float scale = row < p.rows ? read(group, out.values) : 0.f;
    gpu::store_vector(numbers, group * kGroup + gpu::lane() * kOfLane, out);
    if (gpu::lane() == 0) scales[group % in_row * p.padded_rows + row] = scale;
  }
}

// As narrow_row() of formats/row_formats.h does.
LAMINA_GPU_FUNCTION float round_group(const float (&x)[kOfLane], std::uint8_t (&out)[kOfLane]) {
  std::uint32_t largest = 0;  // the magnitudes of floats are ordered as their bits
  LAMINA_GPU_UNROLL
  for (int i = 0; i < kOfLane; ++i)
    largest = gpu::max(largest, stored::bits_of_float(x[i]) & 0x7fffffffu);
  largest = gpu::warp_max(largest);
  if (largest >= 0x7f800000u) return stored::float_of_bits(0x7fc00000u);
  const float scale = stored::divide(stored::float_of_bits(largest), 448.f);
  if (scale < 0x1p-126f) return 0.f;
  LAMINA_GPU_UNROLL
  for (int i = 0; i < kOfLane; ++i) out[i] = stored::e4m3_bits(stored::divide(x[i], scale));
  return scale;
}

}  // namespace

LAMINA_GPU_KERNEL(fp8_operand_of_rows, Fp8OperandParams) {
  const gpu::Global<const gpu::bfloat16> x(p.x);
  write_operand(p, [&](std::int64_t group, std::uint8_t(&out)[kOfLane]) {
    const std::int64_t first = group * kGroup + gpu::lane() * kOfLane;
    float values[kOfLane];
    if (p.x_vectors) {
      const auto v = gpu::load_vector<kOfLane>(x, first);
      LAMINA_GPU_UNROLL
      for (int i = 0; i < kOfLane; ++i) values[i] = gpu::widen(v.values[i]);
    } else {
      LAMINA_GPU_UNROLL
      for (int i = 0; i < kOfLane; ++i) values[i] = gpu::load(x, first + i);
    }
    return round_group(values, out);
  });
}

LAMINA_GPU_KERNEL(fp8_operand_of_blocks, Fp8OperandParams) {
  const stored::StoredBytes x(p.x);
  write_operand(p, [&](std::int64_t group, std::uint8_t(&out)[kOfLane]) {
    const stored::StoredBytes block = x + group * (kGroup + 4);
    const auto v = gpu::load_vector<kOfLane>(block, 4 + gpu::lane() * kOfLane);
    LAMINA_GPU_UNROLL
    for (int i = 0; i < kOfLane; ++i) out[i] = v.values[i];
    return stored::single_at(block, 0);
  });
}

}  // namespace lamina::cuda
