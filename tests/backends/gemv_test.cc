// Groups of small products: the same bits as one by one, and the epilogues.
#include "backends/cpu/gemm/gemv.h"

#include <array>
#include <cmath>
#include <random>

#include "backends/cpu/device/isa.h"
#include "backends/cpu/device/threads.h"
#include "core/float16.h"
#include "support/expect_error.h"

namespace lamina::cpu {
namespace {

constexpr std::array<Isa, 4> kIsas = {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16};

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
  spec.epilogue = GemvEpilogue::add;
  make(spec)->run(x16.data(),
                  std::array<GemvOperands, 1>{{{w16.data(), out16.data(), nullptr, out16.data()}}});
  for (std::size_t j = 0; j < expected.size(); ++j) EXPECT_EQ(out16[j].bits, expected[j].bits);
}

TEST(GemvGroup, SiluMulMatchesDouble) {
  const std::int64_t m = 5, k = 64, n = 130;
  const auto x = random_values(m * k, 1);
  const auto bias = random_values(n, 5);
  for (Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    for (bool w_transposed : {true, false}) {
      const auto gate = random_values(n * k, 2), up = random_values(n * k, 3);
      std::vector<float> out(static_cast<std::size_t>(m * n));
      GemvGroupSpec spec = f32_group(m, k, {{.n = n, .bias = DType::f32}, {.n = n}});
      spec.epilogue = GemvEpilogue::silu_mul;
      spec.w_transposed = w_transposed;
      make(spec)->run(x.data(), std::array<GemvOperands, 2>{
                                    {{gate.data(), out.data(), bias.data()}, {up.data()}}});
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          double g = bias[static_cast<std::size_t>(j)], u = 0;
          for (std::int64_t t = 0; t < k; ++t) {
            const auto at = static_cast<std::size_t>(w_transposed ? j * k + t : t * n + j);
            g += static_cast<double>(x[static_cast<std::size_t>(i * k + t)]) * gate[at];
            u += static_cast<double>(x[static_cast<std::size_t>(i * k + t)]) * up[at];
          }
          EXPECT_NEAR(out[static_cast<std::size_t>(i * n + j)], g / (1 + std::exp(-g)) * u, 2e-4)
              << name(isa);
        }
    }
  }
}

TEST(GemvGroup, SiluIsRightFarFromZero) {
  const std::vector<float> gate = {-1000, -88, -20, 0, 20, 88, 1000, INFINITY, -INFINITY, NAN};
  const std::vector<float> x = {1};
  const std::vector<float> up(gate.size(), 1.0f);
  std::vector<float> out(gate.size());
  const auto n = static_cast<std::int64_t>(gate.size());
  GemvGroupSpec spec = f32_group(1, 1, {{.n = n}, {.n = n}});
  spec.epilogue = GemvEpilogue::silu_mul;
  make(spec)->run(x.data(), std::array<GemvOperands, 2>{{{gate.data(), out.data()}, {up.data()}}});
  EXPECT_NEAR(out[0], 0, 1e-30);
  EXPECT_NEAR(out[2], -20 / (1 + std::exp(20.0)), 1e-13);
  EXPECT_EQ(out[3], 0);
  EXPECT_NEAR(out[4], 20, 1e-5);
  EXPECT_EQ(out[6], 1000);
  EXPECT_EQ(out[7], INFINITY);
  EXPECT_TRUE(std::isnan(out[9]));
}

TEST(GemvGroup, RefusesWithTheReason) {
  std::string why;
  GemvGroupSpec spec = f32_group(kMaxGemvRows + 1, 8, {{.n = 8}});
  EXPECT_EQ(make_gemv_group(spec, &why), nullptr);
  EXPECT_EQ(why, "65 rows; weight streaming takes 0 to 64");
  spec = f32_group(1, 8, {{.n = 8}, {.n = 7}});
  spec.epilogue = GemvEpilogue::silu_mul;
  EXPECT_EQ(make_gemv_group(spec, &why), nullptr);
  EXPECT_EQ(why, "silu_mul takes two matrices of one size, gate and up");
}

}  // namespace
}  // namespace lamina::cpu
