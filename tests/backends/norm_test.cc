// Bit-equal results of norms, which tolerances cannot test.
#include "backends/cpu/norm/norm.h"

#include <cstring>

#include "vector_support.h"

namespace lamina::cpu {
namespace {

template <typename T>
void expect_residual_equals_add_then_norm(DType dtype) {
  constexpr std::int64_t kRows = 3, kWidth = 77;
  constexpr std::size_t kElements = kRows * kWidth;
  const auto x = as<T>(normal_floats(kElements, 3)), r = as<T>(normal_floats(kElements, 4));
  const std::vector<float> w = normal_floats(kWidth, 5);
  std::vector<T> sum(kElements), y(kElements), added(kElements), want(kElements);
  RmsNormForward p = {.dtype = dtype,
                      .rows = kRows,
                      .width = kWidth,
                      .x = x.data(),
                      .residual = r.data(),
                      .sum = sum.data(),
                      .y = y.data(),
                      .weight = w.data(),
                      .eps = 1e-5f};
  rms_norm_forward(p);
  for (std::size_t i = 0; i < kElements; ++i) added[i] = rounded<T>(number(x[i]) + number(r[i]));
  p.x = added.data();
  p.residual = nullptr;
  p.sum = nullptr;
  p.y = want.data();
  rms_norm_forward(p);
  EXPECT_EQ(std::memcmp(sum.data(), added.data(), kElements * sizeof(T)), 0);
  EXPECT_EQ(std::memcmp(y.data(), want.data(), kElements * sizeof(T)), 0);
}

TEST(RmsNorm, FusedResidualEqualsAddThenNormBitwise) {
  for_each_isa([] {
    expect_residual_equals_add_then_norm<float>(DType::f32);
    expect_residual_equals_add_then_norm<bfloat16>(DType::bf16);
  });
}

// Gradients of x, weight and bias, concatenated.
std::vector<float> layer_gradients(std::int64_t rows, std::int64_t width) {
  const auto n = static_cast<std::size_t>(rows * width), w = static_cast<std::size_t>(width);
  const std::vector<float> x = normal_floats(n, 1), dy = normal_floats(n, 2);
  const std::vector<float> weight = normal_floats(w, 3);
  std::vector<float> gradients(n + 2 * w);
  std::vector<std::byte> workspace(norm_workspace_bytes(rows, width, 2));
  layer_norm_backward({.dtype = DType::f32,
                       .rows = rows,
                       .width = width,
                       .x = x.data(),
                       .dy = dy.data(),
                       .dx = gradients.data(),
                       .weight = weight.data(),
                       .dweight = gradients.data() + n,
                       .dbias = gradients.data() + n + w,
                       .eps = 1e-5f,
                       .workspace = reinterpret_cast<float*>(workspace.data())});
  return gradients;
}

TEST(LayerNorm, GradientsHaveTheSameBitsForAnyNumberOfThreads) {
  for_each_isa([] { expect_same_for_any_threads([] { return layer_gradients(1001, 65); }); });
}

}  // namespace
}  // namespace lamina::cpu
