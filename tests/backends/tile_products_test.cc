// Products by matrix units, plain and AMX, against their definition, and which results are equal.
// Machines without AMX emulate its instructions.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemv.h"
#include "backends/cpu/gemm/grouped.h"
#include "backends/cpu/gemm/matrix_unit.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/float16.h"
#include "isas.h"
#include "support/aligned_bytes.h"
#include "support/amx_arithmetic.h"
#include "support/amx_emulator.h"
#include "support/expect_error.h"

namespace lamina::cpu {
namespace {

using testing::AlignedBytes;
using testing::amx_multiply_add;
using testing::AmxEmulator;
using Halves = std::vector<bfloat16>;

// Calls check() with each unit.
template <typename Check>
void for_each_unit(const Check& check) {
  const AmxEmulator amx;
  for (const MatrixUnit unit : {MatrixUnit::emulated, MatrixUnit::amx}) {
#if !defined(__x86_64__)
    if (unit == MatrixUnit::amx) continue;
#endif
    const ScopedMatrixUnit scoped(unit);
    SCOPED_TRACE(unit == MatrixUnit::amx ? "amx" : "emulated");
    const std::int64_t before = amx.instructions();
    check();
    if (unit == MatrixUnit::amx && !has_matrix_unit()) {
      EXPECT_GT(amx.instructions(), before);
    }
  }
}

Halves random_halves(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Halves out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(to_bfloat16(normal(random)));
  return out;
}

struct Product {
  GemmSpec spec;
  Halves a, b;
  std::vector<float> bias;
  float before = 0;  // in every place of C; for f32

  explicit Product(const GemmSpec& s)
      : spec(s), a(random_halves(s.m * s.k, 1)), b(random_halves(s.n * s.k, 2)) {
    for (bfloat16 x : random_halves(s.n, 3)) bias.push_back(to_float(x));
    spec.bias = DType::f32;
  }
  std::vector<std::byte> run(std::int64_t m) const {
    GemmSpec s = spec;
    s.m = m;
    if (s.a_transposed) s.lda = spec.m;
    std::string why;
    const auto gemm = make_gemm(s, &why);
    EXPECT_NE(gemm, nullptr) << why;
    AlignedBytes workspace(gemm->workspace_bytes());
    std::vector<std::byte> c(static_cast<std::size_t>(m * s.n * size_bytes(s.out)));
    if (before != 0) {
      const std::vector<float> values(static_cast<std::size_t>(m * s.n), before);
      std::memcpy(c.data(), values.data(), c.size());
    }
    gemm->run(a.data(), b.data(), bias.data(), c.data(), workspace.data());
    return c;
  }
  std::vector<std::byte> run() const { return run(spec.m); }
  // The sum by tiles of 16 x 16, piece by piece, and the bias.
  float by_definition(std::int64_t i, std::int64_t j) const {
    float sum = 0;
    for (std::int64_t piece = 0; piece < spec.k; piece += kUnitDepth) {
      float parts[2] = {};
      for (std::int64_t k = piece; k < std::min(piece + kUnitDepth, spec.k); ++k)
        parts[k % 2] = amx_multiply_add(a_at(i, k), b_at(k, j), parts[k % 2]);
      sum = sum + (parts[0] + parts[1]);
    }
    return sum + bias[static_cast<std::size_t>(j)];
  }
  std::vector<std::byte> by_definition() const {
    std::vector<std::byte> out;
    for (std::int64_t i = 0; i < spec.m; ++i)
      for (std::int64_t j = 0; j < spec.n; ++j) {
        const float sum = by_definition(i, j);
        const bfloat16 rounded = to_bfloat16(sum);
        const auto* bytes = spec.out == DType::f32 ? reinterpret_cast<const std::byte*>(&sum)
                                                   : reinterpret_cast<const std::byte*>(&rounded);
        out.insert(out.end(), bytes, bytes + size_bytes(spec.out));
      }
    return out;
  }
  float a_at(std::int64_t i, std::int64_t k) const {
    return to_float(
        a[static_cast<std::size_t>(spec.a_transposed ? k * spec.m + i : i * spec.k + k)]);
  }
  float b_at(std::int64_t k, std::int64_t j) const {
    return to_float(
        b[static_cast<std::size_t>(spec.b_transposed ? j * spec.k + k : k * spec.n + j)]);
  }
};

TEST(MatrixUnitGemm, HasTheBitsOfTheDefinitionForEveryLayoutAndIsa) {
  for_each_unit([] {
    for (const Isa isa : kIsas) {
      const ScopedIsa scoped(isa);
      for (const bool a_transposed : {false, true})
        for (const bool b_transposed : {false, true})
          for (const DType out : {DType::bf16, DType::f32})
            for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 33, 64},
                                          {1, 40, 35},
                                          {3, 40, 31},
                                          {17, 31, 96},
                                          {70, 97, 65},
                                          {81, 64, 160}}) {
              const Product p({.m = m,
                               .n = n,
                               .k = k,
                               .out = out,
                               .a_transposed = a_transposed,
                               .b_transposed = b_transposed});
              EXPECT_EQ(p.run(), p.by_definition())
                  << name(isa) << " " << m << " x " << n << " x " << k
                  << (a_transposed ? " A^T" : "") << (b_transposed ? " B^T" : "");
            }
    }
  });
}

// Several parts of the rows, tasks of several panels, a last panel of one column, several blocks of
// k.
TEST(MatrixUnitGemm, LargeProductsHaveTheBitsOfTheDefinition) {
  set_threads(2, false);
  for (const MatrixUnit unit : {MatrixUnit::emulated, MatrixUnit::amx}) {
    if (unit == MatrixUnit::amx && !has_matrix_unit()) continue;  // too slow by an emulator
    const ScopedMatrixUnit scoped(unit);
    for (const bool transposed : {false, true}) {
      const Product p({.m = 1060,
                       .n = 545,
                       .k = 1100,
                       .out = DType::f32,
                       .a_transposed = transposed,
                       .b_transposed = !transposed});
      const std::vector<std::byte> c = p.run();
      std::mt19937 random(7);
      for (int sample = 0; sample < 2000; ++sample) {
        const std::int64_t i = random() % 1060, j = random() % 545;
        float got;
        std::memcpy(&got, c.data() + (i * 545 + j) * 4, sizeof got);
        ASSERT_EQ(got, p.by_definition(i, j)) << i << ", " << j;
      }
    }
  }
}

// One row (decoding), a few (batches) and many (prompts).
TEST(MatrixUnitGemm, RowsDoNotDependOnTheirNumber) {
  for_each_unit([] {
    for (const std::int64_t k : {163, 4162}) {
      const Product p({.m = 70, .n = 40, .k = k});
      std::vector<std::byte> all = p.run();
      for (const std::int64_t m : {33, 16, 9, 3, 1}) {
        all.resize(static_cast<std::size_t>(m * 40 * 2));
        EXPECT_EQ(p.run(m), all) << m << " rows, k " << k;
      }
    }
  });
}

TEST(MatrixUnitGemm, DoesNotDependOnThreads) {
  for_each_unit([] {
    for (const std::int64_t m : {40, 81}) {  // rows that are streamed, and packed ones
      const Product p({.m = m, .n = 130, .k = 4162});
      set_threads(1, false);
      const auto want = p.run();
      set_threads(3, false);
      EXPECT_EQ(p.run(), want) << m << " rows";
    }
    set_threads(2, false);
  });
}

TEST(MatrixUnitGemm, AddsToTheValuesOfC) {
  for_each_unit([] {
    Product plain({.m = 70, .n = 33, .k = 64, .out = DType::f32});
    // Integers: sums are exact in any order.
    for (Halves* values : {&plain.a, &plain.b})
      for (bfloat16& value : *values) value = to_bfloat16(std::round(to_float(value)));
    for (float& value : plain.bias) value = std::round(value);
    Product adding = plain;
    adding.spec.accumulate = true;
    adding.before = 2;
    std::vector<float> want(70 * 33), got(70 * 33);
    std::memcpy(want.data(), plain.run().data(), want.size() * sizeof(float));
    std::memcpy(got.data(), adding.run().data(), got.size() * sizeof(float));
    for (float& value : want) value += 2;
    EXPECT_EQ(got, want);
  });
}

TEST(MatrixUnitGemm, IsNamedForExplain) {
  std::string why;
  {
    const ScopedMatrixUnit unit(MatrixUnit::emulated);
    EXPECT_EQ(make_gemm({.m = 100, .n = 64, .k = 64}, &why)->kernel(), "tiles emulated");
  }
  const AmxEmulator emulator;
  const ScopedMatrixUnit unit(MatrixUnit::amx);
  EXPECT_EQ(make_gemm({.m = 100, .n = 64, .k = 64}, &why)->kernel(), "tiles amx");
}

// The choice is kept for the life of a process, so each value needs a new process.
void exit_with_unit_from_environment(const char* value) {
  setenv("LAMINA_CPU_TILES", value, 1);
  try {
    std::_Exit(40 + static_cast<int>(matrix_unit()));
  } catch (const UserError& e) {
    std::fputs(e.what(), stderr);
    std::_Exit(static_cast<int>(e.code()));
  }
}

TEST(MatrixUnitDeathTest, EnvironmentChoosesTheUnit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto exits = [](MatrixUnit unit) {
    return ::testing::ExitedWithCode(40 + static_cast<int>(unit));
  };
  EXPECT_EXIT(exit_with_unit_from_environment("emulated"), exits(MatrixUnit::emulated), "");
  EXPECT_EXIT(exit_with_unit_from_environment("none"), exits(MatrixUnit::none), "");
  EXPECT_EXIT(exit_with_unit_from_environment(""),
              exits(has_matrix_unit() ? MatrixUnit::amx : MatrixUnit::none), "");
}

TEST(MatrixUnitDeathTest, WrongValuesOfTheEnvironmentAreUserErrors) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_with_unit_from_environment("avx"), ::testing::ExitedWithCode(2),
              "LAMINA_CPU_TILES: unknown matrix unit 'avx'.*\n"
              ".*use none, amx, emulated or onednn");
  if (has_matrix_unit()) return;
  EXPECT_EXIT(exit_with_unit_from_environment("amx"), ::testing::ExitedWithCode(2),
              "LAMINA_CPU_TILES: is 'amx', but this machine has no AMX");
}

// ---- Experts ------------------------------------------------------------------------------------

// Three experts with 3, 0 and 67 rows.
constexpr std::int64_t kRows = 70, kInputs = 97, kOutputs = 75;
constexpr std::int32_t kOffsets[] = {0, 3, 3, kRows};
const GroupedSpec kExperts = {
    .rows = kRows, .groups = 3, .inputs = kInputs, .outputs = kOutputs, .bias = DType::f32};

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto* first = reinterpret_cast<const std::byte*>(values.data());
  return {first, first + values.size() * sizeof(T)};
}

// Runs a plain product of a group's rows.
template <typename Out>
std::vector<Out> product(GemmSpec spec, const bfloat16* a, const bfloat16* b, const float* bias) {
  std::string why;
  const auto gemm = make_gemm(spec, &why);
  EXPECT_NE(gemm, nullptr) << why;
  AlignedBytes workspace(gemm->workspace_bytes());
  std::vector<Out> out(static_cast<std::size_t>(spec.m * spec.n));
  gemm->run(a, b, bias, out.data(), workspace.data());
  return out;
}

TEST(MatrixUnitExperts, ForwardHasTheBitsOfSingleRows) {
  for_each_unit([] {
    const Halves x = random_halves(kRows * kInputs, 1);
    const Halves w = random_halves(3 * kOutputs * kInputs, 2);
    std::vector<float> bias;
    for (bfloat16 b : random_halves(3 * kOutputs, 3)) bias.push_back(to_float(b));
    const GroupedLinear linear(kExperts);
    AlignedBytes workspace(linear.workspace_bytes());
    Halves y(kRows * kOutputs);
    linear.run(x.data(), w.data(), kOffsets, bias.data(), y.data(), workspace.data());
    for (std::int64_t row = 0; row < kRows; ++row) {
      const std::int64_t group = row < 3 ? 0 : 2;
      const auto want = product<bfloat16>(
          {.m = 1, .n = kOutputs, .k = kInputs, .bias = DType::f32}, x.data() + row * kInputs,
          w.data() + group * kOutputs * kInputs, bias.data() + group * kOutputs);
      const Halves got(y.begin() + row * kOutputs, y.begin() + (row + 1) * kOutputs);
      EXPECT_EQ(bytes_of(got), bytes_of(want)) << "row " << row;
    }
  });
}

TEST(MatrixUnitExperts, GradientsHaveTheBitsOfPlainProducts) {
  for_each_unit([] {
    const Halves x = random_halves(kRows * kInputs, 1), dy = random_halves(kRows * kOutputs, 2);
    const Halves w = random_halves(3 * kOutputs * kInputs, 3);
    const GroupedLinearDx to_inputs(kExperts);
    const GroupedLinearDw to_weights(kExperts);
    AlignedBytes workspace(std::max(to_inputs.workspace_bytes(), to_weights.workspace_bytes()));
    Halves dx(kRows * kInputs);
    std::vector<float> dw(3 * kOutputs * kInputs);
    to_inputs.run(dy.data(), w.data(), kOffsets, dx.data(), workspace.data());
    to_weights.run(x.data(), dy.data(), kOffsets, dw.data(), workspace.data());
    for (const std::int64_t group : {0, 2}) {
      const std::int64_t first = kOffsets[group], rows = kOffsets[group + 1] - first;
      const auto want_dx = product<bfloat16>(
          {.m = rows, .n = kInputs, .k = kOutputs, .b_transposed = false},
          dy.data() + first * kOutputs, w.data() + group * kOutputs * kInputs, nullptr);
      EXPECT_EQ(
          bytes_of(Halves(dx.begin() + first * kInputs, dx.begin() + (first + rows) * kInputs)),
          bytes_of(want_dx));
      const auto want_dw =
          product<float>({.m = kOutputs,
                          .n = kInputs,
                          .k = rows,
                          .out = DType::f32,
                          .a_transposed = true,
                          .b_transposed = false},
                         dy.data() + first * kOutputs, x.data() + first * kInputs, nullptr);
      const auto begin = dw.begin() + group * kOutputs * kInputs;
      EXPECT_EQ(std::vector<float>(begin, begin + kOutputs * kInputs), want_dw);
    }
  });
}

}  // namespace
}  // namespace lamina::cpu
