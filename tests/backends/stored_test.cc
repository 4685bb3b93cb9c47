// Kernels on matrices that are stored in blocks and widened by panels: the bits of the same kernels
// on widened matrices. Products of few rows with blocks: integer_products_test.cc and
// fp8_products_test.cc.
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemv.h"
#include "backends/cpu/gemm/grouped.h"
#include "backends/cpu/stored/stored_dots.h"
#include "backends/cpu/stored/stored_rows.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/float16.h"
#include "isas.h"
#include "support/aligned_bytes.h"
#include "support/expect_error.h"
#include "support/stored_blocks.h"

namespace lamina::cpu {
namespace {

using formats::BlockFormat;
using testing::AlignedBytes;
using testing::has_wide_scale;
using testing::random_blocks;
using testing::remove_nans;
using Bytes = std::vector<std::byte>;

constexpr std::array<DType, 2> kDtypes = {DType::f32, DType::bf16};

void put(std::byte* at, const void* value, std::size_t size) { std::memcpy(at, value, size); }

// The values by the format's definition, rounded once.
Bytes widened(const BlockFormat& format, const Bytes& blocks, DType dtype) {
  Bytes out;
  std::array<float, formats::kMaxBlockValues> values;
  for (std::size_t at = 0; at < blocks.size(); at += static_cast<std::size_t>(format.num_bytes)) {
    format.widen(blocks.data() + at, values.data());
    for (int i = 0; i < format.num_values; ++i) {
      const float value = values[static_cast<std::size_t>(i)];
      const bfloat16 rounded = to_bfloat16(value);
      const auto* from = dtype == DType::f32 ? reinterpret_cast<const std::byte*>(&value)
                                             : reinterpret_cast<const std::byte*>(&rounded);
      out.insert(out.end(), from, from + size_bytes(dtype));
    }
  }
  return out;
}

// Values that a product does not overflow with.
Bytes random_rows(std::int64_t count, DType dtype, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Bytes out(static_cast<std::size_t>(count * size_bytes(dtype)));
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = uniform(random);
    const bfloat16 rounded = to_bfloat16(value);
    if (dtype == DType::f32)
      put(out.data() + 4 * i, &value, 4);
    else
      put(out.data() + 2 * i, &rounded, 2);
  }
  return out;
}

template <typename Check>
void for_all(const Check& check) {
  for (const Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    for (const BlockFormat& format : formats::block_formats())
      for (const DType dtype : kDtypes) {
        SCOPED_TRACE(::testing::Message() << name(isa) << " " << format.name << " " << name(dtype));
        check(format, dtype);
      }
  }
}

TEST(StoredRows, HaveTheBitsOfTheDefinition) {
  for_all([](const BlockFormat& format, DType dtype) {
    const std::int64_t rows = 3, width = 5 * format.num_values;
    // Scales so small that values are subnormal, and so large that some are infinite.
    for (const float scale : {0x1p-6f, -0x1p-6f, 0x1p-22f, 0x1p-126f, 0x1p+13f, 0x1p+122f}) {
      if (std::abs(std::ilogb(scale)) > 22 && !has_wide_scale(format)) continue;
      const Bytes blocks = random_blocks(format, rows * width, 1, scale);
      const Bytes want = widened(format, blocks, dtype);
      Bytes got(want.size());
      StoredRows(format, width, dtype).widen(blocks.data(), 0, rows, got.data());
      EXPECT_EQ(got, want) << "scale " << scale;
    }
  });
}

// Machines without tables of bytes round FP8, too.
TEST(StoredRows, TheMachineRoundsAsTheDefinition) {
  if (best_isa() != Isa::avx512_bf16) GTEST_SKIP() << "needs AVX-512 with bf16";
  for (const BlockFormat& format : formats::block_formats()) {
    SCOPED_TRACE(format.name);
    const auto* functions = find_format<WidenFunctions>(format);
    if (functions == nullptr) continue;
    const std::int64_t count = 64 * format.num_values;
    const Bytes blocks = random_blocks(format, count, 3);
    const Bytes expected = widened(format, blocks, DType::bf16);
    for (const WidenBlocks widen : {functions->bf16, functions->machine_bf16}) {
      Bytes got(expected.size());
      widen(blocks.data(), count, got.data());
      EXPECT_EQ(got, expected);
    }
  }
}

TEST(StoredRows, PartsOfRowsEqualTheWholesParts) {
  for_all([](const BlockFormat& format, DType dtype) {
    const std::int64_t rows = 3, width = 4 * format.num_values;
    const Bytes blocks = random_blocks(format, rows * width, 2);
    const Bytes all = widened(format, blocks, dtype);
    const StoredRows stored(format, width, dtype);
    const StoredRows::Span part =
        stored.whole_blocks(format.num_values + 1, 2 * format.num_values + 1);
    EXPECT_EQ(part.first, format.num_values);
    EXPECT_EQ(part.past, 3 * format.num_values);
    const std::int64_t bytes = (part.past - part.first) * size_bytes(dtype);
    Bytes got(static_cast<std::size_t>(2 * bytes));
    stored.widen(blocks.data(), 1, 2, part, got.data());
    for (std::int64_t row = 0; row < 2; ++row)
      EXPECT_EQ(0, std::memcmp(got.data() + row * bytes,
                               all.data() + ((row + 1) * width + part.first) * size_bytes(dtype),
                               static_cast<std::size_t>(bytes)));
  });
}

TEST(StoredRows, NoNumberStaysNone) {
  const BlockFormat& format = *formats::fp8_format(32);
  for (const Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    Bytes block = random_blocks(format, 32, 3);
    block[4] = std::byte{0x7f}, block[5] = std::byte{0xff};
    std::vector<float> got(32);
    StoredRows(format, 32, DType::f32).widen(block.data(), 0, 1, got.data());
    EXPECT_TRUE(std::isnan(got[0]) && std::isnan(got[1])) << name(isa);
  }
}

Bytes product(const GemmSpec& spec, const Bytes& a, const Bytes& b, const Bytes& bias) {
  std::string why;
  const auto gemm = make_gemm(spec, &why);
  EXPECT_NE(gemm, nullptr) << why;
  AlignedBytes workspace(gemm->workspace_bytes());
  Bytes out(static_cast<std::size_t>(spec.m * spec.n * size_bytes(spec.out)));
  gemm->run(a.data(), b.data(), bias.data(), out.data(), workspace.data());
  return out;
}

// Fills in the types and the bias.
void expect_same_bits(const BlockFormat& format, DType dtype, GemmSpec spec) {
  Bytes blocks = random_blocks(format, spec.n * spec.k, 4);
  remove_nans(format, blocks);
  const Bytes a = random_rows(spec.m * spec.k, dtype, 5), bias = random_rows(spec.n, DType::f32, 6);
  spec.in = spec.out = dtype;
  spec.bias = DType::f32;
  const Bytes want = product(spec, a, widened(format, blocks, dtype), bias);
  spec.b_stored = &format;
  EXPECT_EQ(product(spec, a, blocks, bias), want) << spec.m << " x " << spec.n << " x " << spec.k;
}

void expect_same_product(const BlockFormat& format, DType dtype, std::int64_t m, std::int64_t n,
                         std::int64_t k) {
  const auto* dots = find_stored_dots(&format, dtype);
  if (dots && (dots->integers || m <= max_rows_to_stream(dtype, &format))) return;
  expect_same_bits(format, dtype, {.m = m, .n = n, .k = k});
}

TEST(StoredGemm, FewRowsHaveTheBitsOfWidenedWeights) {
  set_threads(3, false);
  for_all([](const BlockFormat& format, DType dtype) {
    for (const std::int64_t m : {1, 5, 16}) expect_same_product(format, dtype, m, 77, 512);
  });
  set_threads(2, false);
}

TEST(StoredGemm, ManyRowsHaveTheBitsOfWidenedWeights) {
  for_all([](const BlockFormat& format, DType dtype) {
    expect_same_product(format, dtype, 70, 77, 512);
  });
}

// 4352 = 17 * 256 is divided into two sums of 2176, in the middle of a block.
TEST(StoredGemm, DeepSumsMayBeginInsideABlock) {
  for (const BlockFormat& format : formats::block_formats())
    for (const DType dtype : kDtypes) expect_same_product(format, dtype, 65, 35, 4352);
}

TEST(StoredGemm, RefusesOtherLayouts) {
  std::string why;
  GemmSpec spec{.m = 1, .n = 4, .k = 64, .ldb = 128};
  spec.b_stored = formats::find_block_format(8);
  EXPECT_EQ(make_gemm(spec, &why), nullptr);
  EXPECT_EQ(why, "a stored B must consist of adjacent rows of whole blocks");
  spec = {.m = 1, .n = 48, .k = 64, .b_transposed = false};
  spec.b_stored = formats::find_block_format(8);
  EXPECT_EQ(make_gemm(spec, &why), nullptr) << "48 columns are not whole blocks of 32";
}

// dx = dy w, with blocks of w[k, n] along n.
void expect_same_columns(const BlockFormat& format, DType dtype, std::int64_t m, std::int64_t n,
                         std::int64_t k) {
  expect_same_bits(format, dtype, {.m = m, .n = n, .k = k, .b_transposed = false});
}

TEST(StoredColumns, HaveTheBitsOfWidenedWeights) {
  set_threads(3, false);
  for_all([](const BlockFormat& format, DType dtype) {
    for (const std::int64_t m : {1, 5, 21}) expect_same_columns(format, dtype, m, 512, 37);
  });
  set_threads(2, false);
}

// 2 MiB are 190 and 381 columns of this depth, so columns are widened in several parts; the sums
// are divided as well.
TEST(StoredColumns, DeepSumsAreWidenedInParts) {
  for (const std::uint32_t type : {8u, 12u})  // blocks of 32 and of 256
    for (const DType dtype : kDtypes)
      expect_same_columns(*formats::find_block_format(type), dtype, 19, 1280, 5500);
}

TEST(StoredColumns, DoNotDependOnThreads) {
  const BlockFormat& format = *formats::find_block_format(8);
  const std::int64_t m = 70, n = 1280, k = 600;
  const Bytes blocks = random_blocks(format, k * n, 4), a = random_rows(m * k, DType::bf16, 5);
  GemmSpec spec{.m = m, .n = n, .k = k, .b_transposed = false};
  spec.b_stored = &format;
  set_threads(1, false);
  const Bytes want = product(spec, a, blocks, {});
  set_threads(3, false);
  EXPECT_EQ(product(spec, a, blocks, {}), want);
  set_threads(2, false);
}

TEST(StoredColumns, RowsDoNotDependOnTheirNumber) {
  const BlockFormat& format = *formats::find_block_format(8);
  const std::int64_t n = 640, k = 600;
  const Bytes blocks = random_blocks(format, k * n, 4), a = random_rows(70 * k, DType::bf16, 5);
  GemmSpec spec{.m = 70, .n = n, .k = k, .b_transposed = false};
  spec.b_stored = &format;
  Bytes all = product(spec, a, blocks, {});
  spec.m = 9;
  const Bytes few = product(spec, a, blocks, {});
  all.resize(few.size());
  EXPECT_EQ(all, few);
}

TEST(StoredGroups, HaveTheBitsOfWidenedMatrices) {
  const std::int64_t groups = 4, outputs = 70, inputs = 256;
  for (const std::int64_t rows : {3, 6, 150, 600}) {
    const auto few = static_cast<std::int32_t>(rows / 3);
    const std::vector<std::int32_t> offsets = {0, few, few, 2 * few,
                                               static_cast<std::int32_t>(rows)};
    for_all([&](const BlockFormat& format, DType dtype) {
      // Products with FP8 blocks read few rows as floats.
      const auto* dots = find_stored_dots(&format, dtype);
      if (dots && (dots->integers || rows < 600)) return;
      Bytes blocks = random_blocks(format, groups * outputs * inputs, 7);
      remove_nans(format, blocks);
      const Bytes x = random_rows(rows * inputs, dtype, 8);
      const auto run = [&](const BlockFormat* stored, const Bytes& w) {
        const GroupedLinear linear({.rows = rows,
                                    .groups = groups,
                                    .inputs = inputs,
                                    .outputs = outputs,
                                    .dtype = dtype,
                                    .bias = {},
                                    .stored = stored});
        AlignedBytes workspace(linear.workspace_bytes());
        Bytes y(static_cast<std::size_t>(rows * outputs * size_bytes(dtype)));
        linear.run(x.data(), w.data(), offsets.data(), nullptr, y.data(), workspace.data());
        return y;
      };
      EXPECT_EQ(run(&format, blocks), run(nullptr, widened(format, blocks, dtype)));
    });
  }
}

TEST(StoredGroups, GradientsToRowsHaveTheBitsOfWidenedMatrices) {
  const std::int64_t groups = 4, outputs = 35, inputs = 1024, rows = 60;
  const std::vector<std::int32_t> offsets = {0, 20, 20, 40, 60};
  for_all([&](const BlockFormat& format, DType dtype) {
    Bytes blocks = random_blocks(format, groups * outputs * inputs, 7);
    const Bytes dy = random_rows(rows * outputs, dtype, 8);
    const auto run = [&](const BlockFormat* stored, const Bytes& w) {
      const GroupedLinearDx product({.rows = rows,
                                     .groups = groups,
                                     .inputs = inputs,
                                     .outputs = outputs,
                                     .dtype = dtype,
                                     .bias = {},
                                     .stored = stored});
      AlignedBytes workspace(product.workspace_bytes());
      Bytes dx(static_cast<std::size_t>(rows * inputs * size_bytes(dtype)));
      product.run(dy.data(), w.data(), offsets.data(), dx.data(), workspace.data());
      return dx;
    };
    EXPECT_EQ(run(&format, blocks), run(nullptr, widened(format, blocks, dtype)));
  });
}

}  // namespace
}  // namespace lamina::cpu
