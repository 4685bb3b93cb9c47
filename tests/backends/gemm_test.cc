// Products, compared with a double-precision reference: every layout, type, size class and
// instruction set. The bits depend neither on the pool nor on the other rows of a small batch.
#include "backends/cpu/gemm/gemm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "backends/cpu/gemm/gemv.h"
#include "backends/cpu/gemm/matrix_unit.h"
#include "backends/cpu/gemm/onednn.h"
#include "backends/cpu/gemm/tiles.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/float16.h"
#include "isas.h"
#include "support/aligned_bytes.h"
#include "support/expect_error.h"

namespace lamina::cpu {
namespace {

// Values in one of the two element types, readable as double.
struct Values {
  DType dtype = DType::f32;
  std::vector<std::byte> bytes;

  Values(DType type, std::int64_t count, unsigned seed) : dtype(type) {
    bytes.resize(static_cast<std::size_t>(count * size_bytes(type)));
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(-1.0f, 1.0f);
    for (std::int64_t i = 0; i < count; ++i) set(i, value(random));
  }
  void set(std::int64_t i, float value) {
    if (dtype == DType::f32) {
      std::memcpy(bytes.data() + 4 * i, &value, 4);
    } else {
      const bfloat16 rounded = to_bfloat16(value);
      std::memcpy(bytes.data() + 2 * i, &rounded, 2);
    }
  }
  double at(std::int64_t i) const {
    if (dtype == DType::f32) {
      float value;
      std::memcpy(&value, bytes.data() + 4 * i, 4);
      return value;
    }
    bfloat16 value;
    std::memcpy(&value, bytes.data() + 2 * i, 2);
    return to_float(value);
  }
  void* data() { return bytes.data(); }
};

struct Problem {
  explicit Problem(GemmSpec s, std::int64_t padding = 0) : spec(s) {
    spec.lda = (s.a_transposed ? s.m : s.k) + padding;
    spec.ldb = (s.b_transposed ? s.k : s.n) + padding;
    spec.ldc = s.n + padding;
    a = Values(s.in, (s.a_transposed ? s.k : s.m) * spec.lda, 1);
    b = Values(s.in, (s.b_transposed ? s.n : s.k) * spec.ldb, 2);
    c = Values(s.out, s.m * spec.ldc, 3);
    bias = Values(s.bias.value_or(DType::f32), s.n, 4);
  }
  double a_at(std::int64_t i, std::int64_t k) const {
    return a.at(spec.a_transposed ? k * spec.lda + i : i * spec.lda + k);
  }
  double b_at(std::int64_t k, std::int64_t j) const {
    return b.at(spec.b_transposed ? j * spec.ldb + k : k * spec.ldb + j);
  }

  GemmSpec spec;
  Values a{DType::f32, 0, 0}, b{DType::f32, 0, 0}, c{DType::f32, 0, 0}, bias{DType::f32, 0, 0};
};

// Runs a product on a copy of C.
Values run(Problem& p, const Gemm* gemm) {
  testing::AlignedBytes workspace(gemm->workspace_bytes());
  Values c = p.c;
  gemm->run(p.a.data(), p.b.data(), p.bias.data(), c.data(), workspace.data());
  return c;
}

Values run(Problem& p) {
  std::string why;
  const auto gemm = make_gemm(p.spec, &why);
  EXPECT_NE(gemm, nullptr) << why;
  return run(p, gemm.get());
}

std::string describe(const Problem& p) {
  const GemmSpec& s = p.spec;
  return fmt::format("m {} n {} k {} {} to {} A{} B{} acc {} bias {} isa {}", s.m, s.n, s.k,
                     name(s.in), name(s.out), s.a_transposed ? "^T" : "",
                     s.b_transposed ? "^T" : "", s.accumulate, s.bias ? name(*s.bias) : "none",
                     name(best_isa()));
}

// f32 sums: error grows with the sum of magnitudes. bf16 adds half a unit in the last place.
void expect_right(Problem& p, const Values& c) {
  int wrong = 0;
  for (std::int64_t i = 0; i < p.spec.m; ++i) {
    for (std::int64_t j = 0; j < p.spec.ldc; ++j) {
      const std::int64_t at = i * p.spec.ldc + j;
      if (j >= p.spec.n) {  // the gap between rows must not change
        EXPECT_EQ(c.at(at), p.c.at(at)) << describe(p);
        continue;
      }
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < p.spec.k; ++k) {
        const double product = p.a_at(i, k) * p.b_at(k, j);
        sum += product;
        magnitude += std::abs(product);
      }
      if (p.spec.bias) sum += p.bias.at(j), magnitude += std::abs(p.bias.at(j));
      if (p.spec.accumulate) sum += p.c.at(at), magnitude += std::abs(p.c.at(at));
      const double tolerance =
          2e-6 * magnitude + (p.spec.out == DType::bf16 ? std::abs(sum) / 256 : 0) + 1e-30;
      if (!(std::abs(c.at(at) - sum) <= tolerance) && ++wrong < 4)
        ADD_FAILURE() << describe(p) << " at [" << i << ", " << j << "]: got " << c.at(at)
                      << ", expected " << sum;
    }
  }
  EXPECT_EQ(wrong, 0) << describe(p);
}

void expect_right(Problem& p) { expect_right(p, run(p)); }

const std::array<std::array<std::int64_t, 3>, 17> kShapes = {{{1, 1, 1},
                                                              {1, 37, 31},
                                                              {1, 131, 6211},
                                                              {2, 131, 3107},
                                                              {7, 260, 100},
                                                              {2, 65, 33},
                                                              {3, 32, 128},
                                                              {4, 100, 127},
                                                              {5, 97, 129},
                                                              {8, 7, 257},
                                                              {16, 33, 64},
                                                              {17, 1, 19},
                                                              {17, 49, 300},
                                                              {23, 130, 1},
                                                              {64, 64, 64},
                                                              {101, 203, 67},
                                                              {129, 513, 31}}};

TEST(Gemm, Example) {
  const std::vector<float> x = {1, 2, 3, 4};        // [2, 2]
  const std::vector<float> w = {1, 0, 0, 1, 1, 1};  // [3, 2]: out, in
  std::vector<float> y(6);
  std::string why;
  auto gemm = make_gemm({.m = 2, .n = 3, .k = 2, .in = DType::f32, .out = DType::f32}, &why);
  testing::AlignedBytes workspace(gemm->workspace_bytes());
  gemm->run(x.data(), w.data(), nullptr, y.data(), workspace.data());
  EXPECT_EQ(y, (std::vector<float>{1, 2, 3, 3, 4, 7}));
}

TEST(Gemm, MatchesDoubleForEveryLayoutTypeAndIsa) {
  set_threads(2, false);
  for (Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    for (const auto& [m, n, k] : kShapes)
      for (bool a_transposed : {false, true})
        for (bool b_transposed : {false, true})
          for (DType in : {DType::bf16, DType::f32})
            for (DType out : {DType::bf16, DType::f32}) {
              Problem p({.m = m,
                         .n = n,
                         .k = k,
                         .in = in,
                         .out = out,
                         .a_transposed = a_transposed,
                         .b_transposed = b_transposed});
              expect_right(p);
            }
  }
}

TEST(Gemm, AddsBiasAndAccumulatesBetweenPaddedRows) {
  set_threads(2, false);
  for (Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    for (const auto& [m, n, k] : kShapes)
      for (DType in : {DType::bf16, DType::f32})
        for (DType out : {DType::bf16, DType::f32})
          for (DType bias : {DType::bf16, DType::f32})
            for (bool b_transposed : {false, true}) {
              Problem p({.m = m,
                         .n = n,
                         .k = k,
                         .in = in,
                         .out = out,
                         .b_transposed = b_transposed,
                         .accumulate = true,
                         .bias = bias},
                        3);
              expect_right(p);
            }
  }
}

// Whole and partial panels, rows read in place and packed rows, and sums of so many terms that they
// are divided.
TEST(TiledGemm, MatchesDoubleForEveryLayoutTypeAndIsa) {
  set_threads(2, false);
  const std::array<std::array<std::int64_t, 3>, 7> shapes = {{{1, 1, 1},
                                                              {8, 48, 2},
                                                              {9, 49, 33},
                                                              {70, 100, 66},
                                                              {5, 7, 4096},
                                                              {9, 50, 8195},
                                                              {2100, 3, 8}}};
  for (Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    for (const auto& [m, n, k] : shapes)
      for (bool a_transposed : {false, true})
        for (bool b_transposed : {false, true})
          for (DType in : {DType::bf16, DType::f32})
            for (bool accumulate : {false, true}) {
              Problem p({.m = m,
                         .n = n,
                         .k = k,
                         .in = in,
                         .out = accumulate ? DType::f32 : in,
                         .a_transposed = a_transposed,
                         .b_transposed = b_transposed,
                         .accumulate = accumulate},
                        accumulate ? 3 : 0);
              expect_right(p, run(p, make_tiled_gemm(p.spec).get()));
            }
  }
}

TEST(TiledGemm, BitsDoNotDependOnHowRowsAreRead) {
  const ScopedIsa scoped(best_isa());
  for (DType in : {DType::bf16, DType::f32}) {
    Problem rows({.m = 40, .n = 70, .k = 4500, .in = in, .out = DType::f32});
    Problem columns(
        {.m = 40, .n = 70, .k = 4500, .in = in, .out = DType::f32, .a_transposed = true});
    for (std::int64_t i = 0; i < 40; ++i)
      for (std::int64_t k = 0; k < 4500; ++k)
        columns.a.set(k * 40 + i, static_cast<float>(rows.a.at(i * 4500 + k)));
    columns.b = rows.b;
    EXPECT_EQ(run(rows, make_tiled_gemm(rows.spec).get()).bytes,
              run(columns, make_tiled_gemm(columns.spec).get()).bytes);
  }
}

// Large results of whole cache lines are stored past the caches.
TEST(TiledGemm, BitsDoNotDependOnWhenTheResultIsRead) {
  set_threads(2, false);
  for (Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    for (DType in : {DType::bf16, DType::f32}) {
      Problem p({.m = 700,
                 .n = 400,
                 .k = 20,
                 .in = in,
                 .out = DType::f32,
                 .a_transposed = true,
                 .b_transposed = false});
      const Values soon = run(p, make_tiled_gemm(p.spec).get());
      p.spec.is_read_late = true;
      const auto late = make_tiled_gemm(p.spec);
      const std::size_t bytes = soon.bytes.size();
      testing::AlignedBytes c(bytes), workspace(late->workspace_bytes());
      late->run(p.a.data(), p.b.data(), nullptr, c.data(), workspace.data());
      EXPECT_EQ(std::memcmp(c.data(), soon.bytes.data(), bytes), 0);
    }
  }
}

// Products use lamina's tiles, so this test requests oneDNN.
TEST(OnednnGemm, MatchesDoubleForEveryLayoutAndType) {
  set_threads(2, false);
  int num_products = 0;
  for (const auto& [m, n, k] : kShapes)
    for (bool a_transposed : {false, true})
      for (bool b_transposed : {false, true})
        for (DType in : {DType::bf16, DType::f32})
          for (bool accumulate : {false, true}) {
            GemmSpec spec{.m = m,
                          .n = n,
                          .k = k,
                          .in = in,
                          .out = accumulate ? DType::f32 : in,
                          .a_transposed = a_transposed,
                          .b_transposed = b_transposed,
                          .accumulate = accumulate};
            if (m % 2) spec.bias = DType::f32;
            Problem p(spec, accumulate ? 3 : 0);
            std::string why;
            const auto gemm = make_onednn_gemm(p.spec, &why);
            if (gemm == nullptr) continue;
            ++num_products;
            expect_right(p, run(p, gemm.get()));
          }
  if (num_products == 0) GTEST_SKIP() << "oneDNN has no fast kernels for this machine";
  EXPECT_GT(num_products, 60);
}

TEST(OnednnGemm, IsChosenOnRequestOnly) {
  const GemmSpec many{.m = 100, .n = 64, .k = 64}, few{.m = 3, .n = 64, .k = 64};
  const GemmSpec in_f32{.m = 100, .n = 64, .k = 64, .in = DType::f32, .out = DType::f32};
  std::string why;
  EXPECT_NE(make_gemm(many, &why)->kernel(), "onednn");
  if (!make_onednn_gemm({.m = 100, .n = 64, .k = 64, .lda = 64, .ldb = 64, .ldc = 64}, &why))
    GTEST_SKIP() << why;
  const ScopedMatrixUnit unit(MatrixUnit::onednn);
  EXPECT_EQ(make_gemm(many, &why)->kernel(), "onednn");
  EXPECT_NE(make_gemm(few, &why)->kernel(), "onednn");
  EXPECT_NE(make_gemm(in_f32, &why)->kernel(), "onednn");
}

TEST(Gemm, NoTermsGiveTheBias) {
  for (std::int64_t m : {3, 40}) {
    Problem p({.m = m, .n = 5, .k = 0, .in = DType::f32, .out = DType::f32, .bias = DType::f32});
    const Values c = run(p);
    for (std::int64_t i = 0; i < m * 5; ++i) EXPECT_EQ(c.at(i), p.bias.at(i % 5));
  }
}

TEST(Gemm, EmptyOutputIsLeftAlone) {
  for (auto [m, n] : {std::pair<std::int64_t, std::int64_t>{0, 4}, {4, 0}, {40, 0}}) {
    Problem p({.m = m, .n = n, .k = 8});
    EXPECT_EQ(run(p).bytes, p.c.bytes);
  }
}

TEST(Gemm, BitsDoNotDependOnTheNumberOfThreads) {
  const std::array<std::array<std::int64_t, 3>, 7> shapes = {{{1, 999, 333},
                                                              {4, 1000, 512},
                                                              {16, 515, 129},
                                                              {33, 600, 100},
                                                              {600, 777, 65},
                                                              {1030, 130, 70},
                                                              {520, 1100, 40}}};
  for (Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    for (const auto& [m, n, k] : shapes)
      for (bool a_transposed : {false, true})
        for (bool b_transposed : {false, true})
          for (DType in : {DType::bf16, DType::f32}) {
            Problem p({.m = m,
                       .n = n,
                       .k = k,
                       .in = in,
                       .out = DType::f32,
                       .a_transposed = a_transposed,
                       .b_transposed = b_transposed,
                       .accumulate = a_transposed});
            set_threads(1, false);
            const Values one = run(p);
            for (int threads : {2, 3}) {
              set_threads(threads, false);
              EXPECT_EQ(run(p).bytes, one.bytes) << describe(p) << " threads " << threads;
            }
          }
  }
  set_threads(2, false);
}

TEST(Gemm, RowsOfASmallBatchHaveTheBitsTheyHaveAlone) {
  for (Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    for (DType in : {DType::bf16, DType::f32})
      for (bool b_transposed : {false, true})
        for (std::int64_t m : {2, 3, 4, 5, 8, 15, 16, 31, 32, 64}) {
          const std::int64_t k = m % 8 == 0 ? 2381 : 333;
          if (m > (b_transposed ? max_rows_to_stream(in, nullptr) : 4)) continue;
          Problem batch(
              {.m = m, .n = 70, .k = k, .in = in, .out = DType::f32, .b_transposed = b_transposed});
          const Values together = run(batch);
          for (std::int64_t i = 0; i < m; ++i) {
            Problem alone = batch;
            alone.spec.m = 1;
            const auto row_bytes = static_cast<std::ptrdiff_t>(k * size_bytes(in));
            std::copy_n(batch.a.bytes.begin() + i * row_bytes, row_bytes, alone.a.bytes.begin());
            const Values c = run(alone);
            for (std::int64_t j = 0; j < 70; ++j)
              EXPECT_EQ(c.at(j), together.at(i * 70 + j)) << describe(batch) << " row " << i;
          }
        }
  }
}

TEST(Gemm, InfinityAndNanReachOnlyTheirOutputs) {
  for (std::int64_t m : {2, 40}) {
    Problem p({.m = m, .n = 40, .k = 33, .in = DType::f32, .out = DType::bf16});
    p.a.set(0, INFINITY);
    p.b.set(33 * 7, NAN);
    const Values c = run(p);
    EXPECT_TRUE(std::isinf(c.at(0)));
    EXPECT_TRUE(std::isnan(c.at(7)));
    EXPECT_TRUE(std::isnan(c.at(40 + 7)));
    EXPECT_TRUE(std::isfinite(c.at(40 + 8)));
  }
}

TEST(Gemm, RefusesWithTheReason) {
  std::string why;
  EXPECT_EQ(make_gemm({.m = 2, .n = 2, .k = 2, .in = DType::f16}, &why), nullptr);
  EXPECT_EQ(why, "f16 to bf16; products take and give bf16 or f32");
  EXPECT_EQ(make_gemm({.m = -1, .n = 2, .k = 2}, &why), nullptr);
  EXPECT_EQ(why, "m = -1, n = 2, k = 2; a dimension cannot be negative");
  EXPECT_EQ(make_gemm({.m = 4, .n = 2, .k = 8, .lda = 7}, &why), nullptr);
  EXPECT_EQ(why, "rows of 8, 8 and 2 elements do not fit 7, 8 and 2 apart");
}

}  // namespace
}  // namespace lamina::cpu
