// Products of quantised rows with matrices in blocks of integers: their definition in double
// arithmetic, and which results are equal.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/grouped.h"
#include "backends/cpu/gemm/matrix_unit.h"
#include "backends/cpu/stored/integer_gemm.h"
#include "backends/cpu/stored/prepared_rows.h"
#include "backends/cpu/stored/stored_dots.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/float16.h"
#include "formats/fast_products.h"
#include "isas.h"
#include "support/aligned_bytes.h"
#include "support/amx_emulator.h"
#include "support/expect_error.h"
#include "support/stored_blocks.h"

namespace lamina::cpu {
namespace {

using formats::BlockFormat;
using testing::AlignedBytes;
using testing::random_blocks;
using testing::remove_nans;
using Bytes = std::vector<std::byte>;

// Returns whether values of a format are multiplied as integers.
bool has_integers(const BlockFormat& format) {
  const auto* dots = find_stored_dots(&format, DType::bf16);
  return dots && dots->integers;
}

template <typename Check>
void for_all_integer_formats(const Check& check) {
  for (const Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    for (const BlockFormat& format : formats::block_formats()) {
      if (!has_integers(format)) continue;
      SCOPED_TRACE(::testing::Message() << name(isa) << " " << format.name);
      check(format);
    }
  }
}

// Rows whose blocks of 32 have different magnitudes.
std::vector<bfloat16> random_rows(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<bfloat16> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = to_bfloat16(normal(random) * static_cast<float>(1 + i / 32 % 5));
  return out;
}

// A row by the definition of prepared_rows.h.
struct QuantisedValues {
  std::vector<int> codes;
  std::vector<double> values;
};
QuantisedValues quantised(const bfloat16* x, std::int64_t width) {
  QuantisedValues out;
  for (std::int64_t first = 0; first < width; first += 32) {
    const std::int64_t past = std::min(width, first + 32);
    float largest = 0;
    for (std::int64_t i = first; i < past; ++i)
      largest = std::max(largest, std::abs(to_float(x[i])));
    const bool is_zero = largest < 0x1p-100f;
    for (std::int64_t i = first; i < past; ++i) {
      const int code =
          is_zero ? 0 : static_cast<int>(std::nearbyint(to_float(x[i]) * (127.0f / largest)));
      out.codes.push_back(code);
      out.values.push_back(is_zero ? 0 : code * static_cast<double>(largest / 127.0f));
    }
  }
  return out;
}

std::vector<QuantisedStep> quantise(const std::vector<bfloat16>& x) {
  const PreparedRows rows(static_cast<std::int64_t>(x.size()));
  std::vector<QuantisedStep> out(static_cast<std::size_t>(rows.steps()));
  rows.prepare(x.data(), static_cast<std::int64_t>(x.size()), 1,
               reinterpret_cast<std::byte*>(out.data()));
  return out;
}

TEST(QuantisedRows, FollowTheirDefinition) {
  for (const Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    std::vector<bfloat16> x = random_rows(7 * 32, 1);
    for (int i = 0; i < 32; ++i) x[64 + i] = to_bfloat16(0x1p-101f);  // becomes zeros
    for (int i = 0; i < 32; ++i) x[96 + i] = to_bfloat16(i % 2 ? 0x1p127f : -0x1p100f);
    const QuantisedValues want = quantised(x.data(), 7 * 32);
    const std::vector<QuantisedStep> got = quantise(x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const QuantisedStep& step = got[i / 64];
      EXPECT_EQ(step.codes[i % 64], want.codes[i]) << name(isa) << " " << i;
      EXPECT_EQ(step.codes[i % 64] * static_cast<double>(step.scales[i % 64 / 4]), want.values[i]);
    }
    for (const QuantisedStep& step : got)
      for (int lane = 0; lane < 16; ++lane)
        EXPECT_EQ(step.sums[lane], step.codes[4 * lane] + step.codes[4 * lane + 1] +
                                       step.codes[4 * lane + 2] + step.codes[4 * lane + 3]);
    for (int i = 32; i < 64; ++i) EXPECT_EQ(got.back().codes[i], 0) << "after the end";
  }
}

TEST(QuantisedRows, BlocksThatAreNotFiniteHaveNoScale) {
  for (const Isa isa : kIsas)
    for (const float value :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      const ScopedIsa scoped(isa);
      std::vector<bfloat16> x = random_rows(64, 2);
      x[40] = to_bfloat16(value);
      const std::vector<QuantisedStep> got = quantise(x);
      EXPECT_FALSE(std::isnan(got[0].scales[7])) << name(isa);
      EXPECT_TRUE(std::isnan(got[0].scales[8])) << name(isa);
    }
}

// out[m, n] in f32.
std::vector<float> product(const GemmSpec& spec, const void* a, const Bytes& b, const void* bias,
                           float start = 0) {
  std::string why;
  const auto gemm = make_gemm(spec, &why);
  EXPECT_NE(gemm, nullptr) << why;
  AlignedBytes workspace(gemm->workspace_bytes());
  std::vector<float> out(static_cast<std::size_t>(spec.m * spec.n), start);
  gemm->run(a, b.data(), bias, out.data(), workspace.data());
  return out;
}

void expect_definition(const BlockFormat& format, const Bytes& blocks,
                       const std::vector<bfloat16>& x, std::int64_t m, std::int64_t n,
                       std::int64_t k) {
  const auto un = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  std::vector<float> w(un(n * k));
  for (std::int64_t i = 0; i < n * k / format.num_values; ++i)
    format.widen(blocks.data() + i * format.num_bytes, w.data() + i * format.num_values);
  std::vector<float> bias(un(n));
  for (std::int64_t j = 0; j < n; ++j) bias[un(j)] = static_cast<float>(j % 7) - 3;
  const GemmSpec spec{.m = m,
                      .n = n,
                      .k = k,
                      .in = DType::bf16,
                      .out = DType::f32,
                      .accumulate = true,
                      .bias = DType::f32,
                      .b_stored = &format};
  const std::vector<float> got = product(spec, x.data(), blocks, bias.data(), 0.5f);
  double worst = 0;
  for (std::int64_t i = 0; i < m; ++i) {
    const QuantisedValues row = quantised(x.data() + i * k, k);
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0.5 + bias[un(j)], size = std::abs(sum);
      for (std::int64_t at = 0; at < k; ++at) {
        sum += row.values[un(at)] * static_cast<double>(w[un(j * k + at)]);
        // A value with a minimum is a difference of larger numbers.
        const double largest = 32 * std::abs(static_cast<double>(w[un(j * k)])) +
                               std::abs(static_cast<double>(w[un(j * k + at)]));
        size += std::abs(row.values[un(at)]) * largest;
      }
      worst = std::max(worst, std::abs(sum - static_cast<double>(got[un(i * n + j)])) / size);
    }
  }
  EXPECT_LT(worst, 2e-6) << m << " x " << n << " x " << k;
}

void expect_definition(const BlockFormat& format, std::int64_t m, std::int64_t n, std::int64_t k) {
  Bytes blocks = random_blocks(format, n * k, 4);
  remove_nans(format, blocks);
  expect_definition(format, blocks, random_rows(m * k, 5), m, n, k);
}

// Returns whether a byte of a block contains codes: it changes few values, other bytes a scale.
bool contains_codes(const BlockFormat& format, Bytes block, std::int64_t byte) {
  std::vector<float> before(static_cast<std::size_t>(format.num_values)), after = before;
  format.widen(block.data(), before.data());
  block[static_cast<std::size_t>(byte)] ^= std::byte{0x55};
  format.widen(block.data(), after.data());
  std::int64_t changed = 0;
  for (std::size_t i = 0; i < before.size(); ++i) changed += before[i] != after[i];
  return changed <= 8;
}

TEST(IntegerProducts, ExistForAllFormatsWithFastProducts) {
  for (const BlockFormat& format : formats::block_formats())
    EXPECT_EQ(has_integers(format), formats::has_fast_products(format)) << format.name;
}

TEST(IntegerProducts, HaveTheOffsetOfBytesIfTheirIntegersAreNotSmall) {
  const IntegerTileFunctions& table = IntegerTileFunctions::avx2;
  for (std::size_t i = 0; i < table.num_formats; ++i)
    for (const BlockFormat& format : formats::block_formats())
      if (format.name == table.formats[i].name) {
        EXPECT_EQ(table.formats[i].offset == 128, !formats::has_small_integers(format))
            << format.name;
      }
}

TEST(IntegerProducts, OfFewRowsFollowTheirDefinition) {
  for_all_integer_formats([](const BlockFormat& format) {
    // Steps of 64 and 128 values end after any block of 32.
    for (const int blocks : {3, 5, 6}) expect_definition(format, 2, 21, blocks * format.num_values);
    for (const std::int64_t m : {1, 7}) expect_definition(format, m, 21, 3 * format.num_values);
  });
}

TEST(IntegerProducts, OfManyRowsFollowTheirDefinition) {
  for_all_integer_formats(
      [](const BlockFormat& format) { expect_definition(format, 70, 50, 3 * format.num_values); });
}

// Sums of products in few bits must not saturate, and what is left of them must not wrap.
TEST(IntegerProducts, OfManyRowsWithTheLargestCodesFollowTheirDefinition) {
  for_all_integer_formats([](const BlockFormat& format) {
    const std::int64_t m = 66, n = 2, k = 2 * format.num_values;
    std::vector<bfloat16> x(static_cast<std::size_t>(m * k));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t row = i / static_cast<std::size_t>(k);
      x[i] = to_bfloat16(row % 3 == 0 || (row % 3 == 1 && i % 2 == 0) ? 1.0f : -1.0f);
    }
    Bytes scales = random_blocks(format, n * k, 15);
    remove_nans(format, scales);
    const Bytes block(scales.begin(), scales.begin() + format.num_bytes);
    for (const int fill : {0x00, 0xff, 0x0f, 0xf0, 0x77, 0x88, 0x7f, 0x80}) {
      SCOPED_TRACE(fill);
      Bytes blocks = scales;
      for (std::int64_t byte = 0; byte < format.num_bytes; ++byte)
        if (contains_codes(format, block, byte))
          for (std::size_t at = static_cast<std::size_t>(byte); at < blocks.size();
               at += static_cast<std::size_t>(format.num_bytes))
            blocks[at] = static_cast<std::byte>(fill);
      expect_definition(format, blocks, x, m, n, k);
    }
  });
}

TEST(IntegerProducts, ARowHasTheSameBitsAloneAndInABatch) {
  for_all_integer_formats([](const BlockFormat& format) {
    const std::int64_t n = 77, k = 5 * format.num_values, m = 16;
    const Bytes blocks = random_blocks(format, n * k, 6);
    const std::vector<bfloat16> x = random_rows(m * k, 7);
    GemmSpec spec{.m = m, .n = n, .k = k, .out = DType::f32, .bias = {}, .b_stored = &format};
    set_threads(3, false);
    const std::vector<float> all = product(spec, x.data(), blocks, nullptr);
    set_threads(1, false);
    spec.m = 1;
    for (std::int64_t row = 0; row < m; ++row) {
      const std::vector<float> one = product(spec, x.data() + row * k, blocks, nullptr);
      EXPECT_EQ(0, std::memcmp(one.data(), all.data() + row * n, one.size() * sizeof(float)))
          << row;
    }
  });
  set_threads(2, false);
}

TEST(IntegerProducts, ManyRowsDependOnNoOtherRow) {
  for_all_integer_formats([](const BlockFormat& format) {
    const std::int64_t n = 77, k = 3 * format.num_values, m = 130;
    Bytes blocks = random_blocks(format, n * k, 6);
    remove_nans(format, blocks);
    const std::vector<bfloat16> x = random_rows(m * k, 7);
    GemmSpec spec{.m = m, .n = n, .k = k, .out = DType::f32, .bias = {}, .b_stored = &format};
    const std::vector<float> all = product(spec, x.data(), blocks, nullptr);
    spec.m = 70;
    const std::int64_t first = m - spec.m;
    const std::vector<float> last = product(spec, x.data() + first * k, blocks, nullptr);
    EXPECT_EQ(0, std::memcmp(last.data(), all.data() + first * n, last.size() * sizeof(float)));
  });
}

TEST(IntegerProducts, OfManyRowsHaveTheSameBitsByVectorsAndByUnitsOfTiles) {
  const testing::AmxEmulator amx;
  for (const BlockFormat& format : formats::block_formats()) {
    if (!has_integers(format)) continue;
    SCOPED_TRACE(format.name);
    const std::int64_t n = 50, k = 3 * format.num_values, m = 70;
    const Bytes blocks = random_blocks(format, n * k, 6);
    const std::vector<bfloat16> x = random_rows(m * k, 7);
    const std::vector<float> bias(static_cast<std::size_t>(n), 0.75f);
    const GemmSpec spec{.m = m,
                        .n = n,
                        .k = k,
                        .out = DType::f32,
                        .accumulate = true,
                        .bias = DType::f32,
                        .b_stored = &format};
    const auto run = [&](MatrixUnit unit) {
      const ScopedMatrixUnit scoped(unit);
      return product(spec, x.data(), blocks, bias.data(), 0.5f);
    };
    const std::vector<float> want = run(MatrixUnit::none);
    for (const MatrixUnit unit : {MatrixUnit::emulated, MatrixUnit::amx}) {
      const std::vector<float> got = run(unit);
      EXPECT_EQ(0, std::memcmp(got.data(), want.data(), want.size() * sizeof(float)))
          << (unit == MatrixUnit::amx ? "amx" : "emulated");
    }
  }
  // The tiles of bytes are multiplied with AVX-512 only, as integer tiles by vectors.
  if (!has_matrix_unit() && best_isa() >= Isa::avx512) {
    EXPECT_GT(amx.instructions(), 0);
  }
}

TEST(IntegerProducts, HaveTheSameBitsOnEveryMachineWithFma) {
  for (const BlockFormat& format : formats::block_formats()) {
    if (!has_integers(format)) continue;
    const std::int64_t n = 21, k = 3 * format.num_values, m = 3;
    const Bytes blocks = random_blocks(format, n * k, 8);
    const std::vector<bfloat16> x = random_rows(m * k, 9);
    const GemmSpec spec{.m = m, .n = n, .k = k, .out = DType::f32, .bias = {}, .b_stored = &format};
    std::vector<float> results[2];
    for (int i = 0; i < 2; ++i) {
      const ScopedIsa scoped(i == 0 ? Isa::avx2 : Isa::avx512);
      results[i] = product(spec, x.data(), blocks, nullptr);
    }
    EXPECT_EQ(results[0], results[1]) << format.name;
  }
}

TEST(IntegerProducts, OfExpertsHaveTheBitsOfSingleRows) {
  for_all_integer_formats([](const BlockFormat& format) {
    const std::int64_t groups = 3, outputs = 37, inputs = 256, rows = 70;
    const std::vector<std::int32_t> offsets = {0, 3, 3, static_cast<std::int32_t>(rows)};
    const Bytes blocks = random_blocks(format, groups * outputs * inputs, 10);
    const std::vector<bfloat16> x = random_rows(rows * inputs, 11);
    const GroupedLinear linear({.rows = rows,
                                .groups = groups,
                                .inputs = inputs,
                                .outputs = outputs,
                                .dtype = DType::bf16,
                                .bias = {},
                                .stored = &format});
    AlignedBytes workspace(linear.workspace_bytes());
    std::vector<bfloat16> y(static_cast<std::size_t>(rows * outputs));
    linear.run(x.data(), blocks.data(), offsets.data(), nullptr, y.data(), workspace.data());
    for (const std::int64_t row : {0, 2, 3, 69}) {
      const auto first = static_cast<std::ptrdiff_t>(format.bytes_of(outputs * inputs));
      const std::int64_t group = row < 3 ? 0 : 2;
      const Bytes w(blocks.begin() + group * first, blocks.begin() + (group + 1) * first);
      const GemmSpec spec{
          .m = 1, .n = outputs, .k = inputs, .out = DType::f32, .bias = {}, .b_stored = &format};
      const std::vector<float> want = product(spec, x.data() + row * inputs, w, nullptr);
      for (std::int64_t j = 0; j < outputs; ++j)
        EXPECT_EQ(y[static_cast<std::size_t>(row * outputs + j)].bits,
                  to_bfloat16(want[static_cast<std::size_t>(j)]).bits)
            << row << " " << j;
    }
  });
}

TEST(IntegerProducts, OfAGroupHaveTheBitsOfSingleProducts) {
  const std::int64_t m = 1027, k = 256;  // more rows than are quantised at once
  const std::vector<bfloat16> x = random_rows(m * k, 14);
  // Q4_K and Q6_K files mix formats whose codes have different offsets.
  std::vector<GemmSpec> specs;
  std::vector<Bytes> blocks;
  for (const auto& [gguf_type, n] : {std::pair{14u, 50}, std::pair{12u, 7}, std::pair{14u, 96}}) {
    const BlockFormat& format = *formats::find_block_format(gguf_type);
    blocks.push_back(random_blocks(format, n * k, static_cast<unsigned>(n)));
    remove_nans(format, blocks.back());
    specs.push_back(with_defaults(
        {.m = m, .n = n, .k = k, .out = DType::f32, .bias = {}, .b_stored = &format}));
  }
  const auto group = make_integer_gemm_group(specs);
  if (best_isa() < Isa::avx2) {
    EXPECT_EQ(group, nullptr) << "there are no tiles of integers";
    return;
  }
  ASSERT_NE(group, nullptr);
  std::vector<std::vector<float>> got(3);
  std::vector<GemvOperands> operands;
  for (std::size_t i = 0; i < 3; ++i) {
    got[i].resize(static_cast<std::size_t>(m * specs[i].n));
    operands.push_back({.w = blocks[i].data(), .out = got[i].data()});
  }
  AlignedBytes workspace(group->workspace_bytes());
  group->run(x.data(), operands, workspace.data());
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(got[i], product(specs[i], x.data(), blocks[i], nullptr)) << i;
}

TEST(IntegerProducts, OfARowThatIsNotFiniteAreNaN) {
  for (const Isa isa : kIsas)
    for (const std::int64_t m : {2, 70}) {
      const ScopedIsa scoped(isa);
      const BlockFormat& format = *formats::find_block_format(8);
      const std::int64_t n = 5, k = 96;
      const Bytes blocks = random_blocks(format, n * k, 12);
      std::vector<bfloat16> x = random_rows(m * k, 13);
      x[static_cast<std::size_t>(k + 3)] = to_bfloat16(std::numeric_limits<float>::infinity());
      const GemmSpec spec{
          .m = m, .n = n, .k = k, .out = DType::f32, .bias = {}, .b_stored = &format};
      const std::vector<float> y = product(spec, x.data(), blocks, nullptr);
      for (std::size_t j = 0; j < 5; ++j) {
        EXPECT_TRUE(std::isfinite(y[j])) << name(isa);
        EXPECT_TRUE(std::isnan(y[5 + j])) << name(isa);
      }
    }
}

}  // namespace
}  // namespace lamina::cpu
