// Groups of small products: bit-equal to separate products; and the epilogues.
#include "backends/cpu/gemm/gemv.h"

#include <array>
#include <cmath>
#include <random>

#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/float16.h"
#include "isas.h"
#include "support/expect_error.h"

namespace lamina::cpu {
namespace {

std::vector<float> random_values(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-1.0f, 1.0f);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = value(random);
  return values;
}

GemvGroupSpec f32_group(std::int64_t m, std::int64_t k, std::vector<GemvMatrix> matrices) {
  GemvGroupSpec spec;
  spec.m = m;
  spec.k = k;
  spec.in = spec.out = DType::f32;
  spec.matrices = std::move(matrices);
  return spec;
}

std::unique_ptr<GemvGroup> make(const GemvGroupSpec& spec) {
  std::string why;
  auto group = make_gemv_group(spec, &why);
  EXPECT_NE(group, nullptr) << why;
  return group;
}

TEST(GemvGroup, Example) {
  const std::vector<float> x = {1, 2};
  const std::vector<float> wq = {1, 0, 0, 1}, wk = {3, 4};
  std::vector<float> q(2), k(1);
  auto group = make(f32_group(1, 2, {{.n = 2}, {.n = 1}}));
  group->run(x.data(), std::array<GemvOperands, 2>{{{wq.data(), q.data()}, {wk.data(), k.data()}}});
  EXPECT_EQ(q, (std::vector<float>{1, 2}));
  EXPECT_EQ(k, (std::vector<float>{11}));
}

TEST(GemvGroup, MembersHaveTheBitsTheyHaveAlone) {
  const std::int64_t m = 3, k = 701;
  const std::array<std::int64_t, 3> n = {301, 64, 97};
  const auto x = random_values(m * k, 1);
  for (Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    for (int threads : {1, 2, 3}) {
      set_threads(threads, false);
      std::vector<std::vector<float>> w, together, alone;
      std::array<GemvOperands, 3> operands;
      for (std::size_t i = 0; i < 3; ++i) {
        w.push_back(random_values(n[i] * k, static_cast<unsigned>(i)));
        together.push_back(std::vector<float>(static_cast<std::size_t>(m * n[i])));
        alone.push_back(together[i]);
      }
      for (std::size_t i = 0; i < 3; ++i) operands[i] = {w[i].data(), together[i].data()};
      make(f32_group(m, k, {{.n = n[0]}, {.n = n[1]}, {.n = n[2]}}))->run(x.data(), operands);
      for (std::size_t i = 0; i < 3; ++i) {
        const std::array<GemvOperands, 1> operand = {{{w[i].data(), alone[i].data()}}};
        make(f32_group(m, k, {{.n = n[i]}}))->run(x.data(), operand);
        EXPECT_EQ(together[i], alone[i]) << name(isa) << " matrix " << i << " threads " << threads;
      }
    }
  }
  set_threads(2, false);
}

TEST(GemvGroup, AddsResidualInPlaceWithOneRounding) {
  const std::int64_t k = 40, n = 70;
  const auto x = random_values(k, 1), w = random_values(n * k, 2), addend = random_values(n, 3);
  std::vector<bfloat16> x16, w16, out16;
  for (float v : x) x16.push_back(to_bfloat16(v));
  for (float v : w) w16.push_back(to_bfloat16(v));
  for (float v : addend) out16.push_back(to_bfloat16(v));
  std::vector<float> sums(static_cast<std::size_t>(n));
  GemvGroupSpec spec;
  spec.k = k;
  spec.matrices = {{.n = n}};
  spec.out = DType::f32;
  make(spec)->run(x16.data(), std::array<GemvOperands, 1>{{{w16.data(), sums.data()}}});
  std::vector<bfloat16> expected;
  for (std::size_t j = 0; j < out16.size(); ++j)
    expected.push_back(to_bfloat16(sums[j] + to_float(out16[j])));
  spec.out = DType::bf16;
  spec.add = true;
  make(spec)->run(x16.data(),
                  std::array<GemvOperands, 1>{{{w16.data(), out16.data(), nullptr, out16.data()}}});
  for (std::size_t j = 0; j < expected.size(); ++j) EXPECT_EQ(out16[j].bits, expected[j].bits);
}

TEST(GemvGroup, RefusesWithTheReason) {
  std::string why;
  GemvGroupSpec spec = f32_group(kMaxGemvRows + 1, 8, {{.n = 8}});
  EXPECT_EQ(make_gemv_group(spec, &why), nullptr);
  EXPECT_EQ(why, "65 rows; weight streaming takes 0 to 64");
}

}  // namespace
}  // namespace lamina::cpu
