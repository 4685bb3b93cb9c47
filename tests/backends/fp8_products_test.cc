// Products of few rows with blocks of FP8, which multiply before they scale: their definition in
// double arithmetic, and which results are equal.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemv.h"
#include "backends/cpu/gemm/grouped.h"
#include "backends/cpu/stored/stored_dots.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/float16.h"
#include "isas.h"
#include "support/aligned_bytes.h"
#include "support/stored_blocks.h"

namespace lamina::cpu {
namespace {

using formats::BlockFormat;
using testing::AlignedBytes;
using testing::random_blocks;
using testing::remove_nans;
using Bytes = std::vector<std::byte>;

std::size_t un(std::int64_t i) { return static_cast<std::size_t>(i); }

template <typename Check>
void for_all_fp8_formats(const Check& check) {
  int count = 0;
  for (const Isa isa : kIsas) {
    const ScopedIsa scoped(isa);
    for (const int num_values : {32, 128}) {
      const BlockFormat& format = *formats::fp8_format(num_values);
      if (!find_stored_dots(&format, DType::bf16)) continue;
      SCOPED_TRACE(::testing::Message() << name(isa) << " " << format.name);
      check(format);
      ++count;
    }
  }
  EXPECT_GT(count, 0);
}

std::vector<bfloat16> random_rows(std::int64_t count, unsigned seed, float size = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, size);
  std::vector<bfloat16> out(un(count));
  for (bfloat16& x : out) x = to_bfloat16(normal(random));
  return out;
}

// out[m, n] in f32.
std::vector<float> product(const BlockFormat& format, const std::vector<bfloat16>& x,
                           const Bytes& blocks, std::int64_t m, std::int64_t n, std::int64_t k) {
  const GemmSpec spec{.m = m, .n = n, .k = k, .out = DType::f32, .bias = {}, .b_stored = &format};
  std::string why;
  const auto gemm = make_gemm(spec, &why);
  EXPECT_NE(gemm, nullptr) << why;
  EXPECT_TRUE(gemm->kernel().starts_with("fp8 rows")) << gemm->kernel();
  AlignedBytes workspace(gemm->workspace_bytes());
  std::vector<float> out(un(m * n));
  gemm->run(x.data(), blocks.data(), nullptr, out.data(), workspace.data());
  return out;
}

void expect_definition(const BlockFormat& format, const Bytes& blocks,
                       const std::vector<bfloat16>& x, std::int64_t m, std::int64_t n,
                       std::int64_t k) {
  const std::vector<float> got = product(format, x, blocks, m, n, k);
  std::vector<float> w(un(format.num_values));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (std::int64_t at = 0; at < k; at += format.num_values) {
        Bytes block(blocks.begin() + static_cast<std::ptrdiff_t>(format.bytes_of(j * k + at)),
                    blocks.begin() + static_cast<std::ptrdiff_t>(
                                         format.bytes_of(j * k + at + format.num_values)));
        float scale;
        std::memcpy(&scale, block.data(), sizeof scale);
        const float one = 1;
        std::memcpy(block.data(), &one, sizeof one);
        format.widen(block.data(), w.data());  // the values before the scale
        for (std::int64_t v = 0; v < format.num_values; ++v) {
          const double term = static_cast<double>(to_float(x[un(i * k + at + v)])) *
                              static_cast<double>(w[un(v)]) * static_cast<double>(scale);
          sum += term;
          size += std::abs(term);
        }
      }
      const float value = got[un(i * n + j)];
      if (size > static_cast<double>(std::numeric_limits<float>::max())) continue;
      // The smallest numbers have fewer bits.
      EXPECT_LE(std::abs(sum - static_cast<double>(value)), 1e-6 * size + 0x1p-140)
          << "row " << i << " output " << j << ": " << value << ", " << sum;
    }
}

TEST(Fp8Products, FollowTheirDefinition) {
  for_all_fp8_formats([](const BlockFormat& format) {
    const std::int64_t n = 35;
    for (const std::int64_t m : {1, 2, 3, 7, 16})
      for (const int num_blocks : {1, 4, 5}) {
        const std::int64_t k = num_blocks * format.num_values;
        Bytes blocks = random_blocks(format, n * k, 4);
        remove_nans(format, blocks);
        expect_definition(format, blocks, random_rows(m * k, 5), m, n, k);
      }
  });
}

TEST(Fp8Products, OfAnySizeFollowTheirDefinition) {
  for_all_fp8_formats([](const BlockFormat& format) {
    const std::int64_t m = 3, n = 5, k = 3 * format.num_values;
    for (const float scale : {0x1p-140f, 0x1p-126f, 0x1p-117f, 0x1p-6f, 0x1p7f, 0x1p100f})
      for (const float size : {0x1p-130f, 0x1p-60f, 1.f, 0x1p7f, 0x1p20f, 0x1p70f, 0x1p124f}) {
        SCOPED_TRACE(::testing::Message() << "scale " << scale << ", rows " << size);
        // vdpbf16ps reads subnormal numbers as zeros.
        if (size < 0x1p-126f && best_isa() == Isa::avx512_bf16) continue;
        Bytes blocks = random_blocks(format, n * k, 6, scale);
        remove_nans(format, blocks);
        std::vector<bfloat16> x = random_rows(m * k, 7, size);
        for (bfloat16& value : x)
          if (!std::isfinite(to_float(value))) value = to_bfloat16(0x1p127f);
        expect_definition(format, blocks, x, m, n, k);
      }
  });
}

TEST(Fp8Products, MultiplyEveryByte) {
  for_all_fp8_formats([](const BlockFormat& format) {
    const std::int64_t k = format.num_values, n = 256;
    Bytes blocks(un(n * format.num_bytes));
    const float scale = 0.75f;
    for (std::int64_t j = 0; j < n; ++j) {
      std::byte* block = blocks.data() + j * format.num_bytes;
      std::memcpy(block, &scale, sizeof scale);
      block[4 + j % k] = static_cast<std::byte>(j);
    }
    std::vector<bfloat16> x(un(k), to_bfloat16(3));
    const std::vector<float> got = product(format, x, blocks, 1, n, k);
    std::vector<float> w(un(k));
    for (std::int64_t j = 0; j < n; ++j) {
      format.widen(blocks.data() + j * format.num_bytes, w.data());
      const float want = 3 * w[un(j % k)], value = got[un(j)];
      EXPECT_TRUE(value == want || (std::isnan(value) && std::isnan(want)))
          << "byte " << j << ": " << value << ", " << want;
    }
  });
}

TEST(Fp8Products, KeepWhatIsNotANumberInItsRow) {
  for_all_fp8_formats([](const BlockFormat& format) {
    const std::int64_t m = 4, n = 21, k = 5 * format.num_values;
    const float infinity = std::numeric_limits<float>::infinity();
    Bytes blocks = random_blocks(format, n * k, 8);
    remove_nans(format, blocks);
    blocks[un(format.bytes_of(3 * k) + 4 + 9)] = std::byte{0xff};  // in the row of output 3
    const float scales[] = {infinity, std::numeric_limits<float>::quiet_NaN()};
    for (int i = 0; i < 2; ++i)
      std::memcpy(blocks.data() + format.bytes_of((6 + i) * k), &scales[i], sizeof(float));
    std::vector<bfloat16> x = random_rows(m * k, 9);
    x[un(k + 11)] = to_bfloat16(infinity);
    x[un(2 * k + 12)] = to_bfloat16(std::numeric_limits<float>::quiet_NaN());
    const std::vector<float> got = product(format, x, blocks, m, n, k);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const bool finite = (i == 0 || i == 3) && j != 3 && j != 6 && j != 7;
        EXPECT_EQ(std::isfinite(got[un(i * n + j)]), finite) << "row " << i << " output " << j;
        if (i == 2 || j == 3 || j == 7) {
          EXPECT_TRUE(std::isnan(got[un(i * n + j)])) << "row " << i << " output " << j;
        }
      }
  });
}

TEST(Fp8Products, ARowHasTheSameBitsAloneAndInABatch) {
  for_all_fp8_formats([](const BlockFormat& format) {
    const std::int64_t n = 77, k = 5 * format.num_values, m = 16;
    Bytes blocks = random_blocks(format, n * k, 6);
    remove_nans(format, blocks);  // they may have any bits
    const std::vector<bfloat16> x = random_rows(m * k, 7);
    set_threads(3, false);
    const std::vector<float> all = product(format, x, blocks, m, n, k);
    set_threads(1, false);
    for (std::int64_t row = 0; row < m; ++row) {
      const std::vector<bfloat16> own(x.begin() + row * k, x.begin() + (row + 1) * k);
      const std::vector<float> one = product(format, own, blocks, 1, n, k);
      EXPECT_EQ(0, std::memcmp(one.data(), all.data() + row * n, one.size() * sizeof(float)))
          << row;
    }
  });
  set_threads(2, false);
}

TEST(Fp8Products, HaveTheSameBitsOnEveryMachineWithFma) {
  std::vector<float> results[2];
  const BlockFormat& format = *formats::fp8_format(128);
  const std::int64_t n = 21, k = 3 * format.num_values, m = 3;
  for (int i = 0; i < 2; ++i) {
    const ScopedIsa scoped(i == 0 ? Isa::avx2 : Isa::avx512);
    results[i] = product(format, random_rows(m * k, 9), random_blocks(format, n * k, 8), m, n, k);
  }
  EXPECT_EQ(0, std::memcmp(results[0].data(), results[1].data(), results[0].size() * 4));
}

TEST(Fp8Products, OfExpertsHaveTheBitsOfSingleRows) {
  for_all_fp8_formats([](const BlockFormat& format) {
    const std::int64_t groups = 4, outputs = 37, inputs = 256, rows = 90;
    // Group 3 has more rows than are read as floats, unless the machine reads them for any number.
    const std::vector<std::int32_t> offsets = {0, 3, 3, 10, static_cast<std::int32_t>(rows)};
    Bytes blocks = random_blocks(format, groups * outputs * inputs, 10);
    remove_nans(format, blocks);
    const std::vector<bfloat16> x = random_rows(rows * inputs, 11);
    const GroupedLinear linear({.rows = rows,
                                .groups = groups,
                                .inputs = inputs,
                                .outputs = outputs,
                                .dtype = DType::bf16,
                                .bias = {},
                                .stored = &format});
    EXPECT_TRUE(linear.kernel().starts_with("fp8 rows")) << linear.kernel();
    AlignedBytes workspace(linear.workspace_bytes());
    std::vector<bfloat16> y(un(rows * outputs));
    linear.run(x.data(), blocks.data(), offsets.data(), nullptr, y.data(), workspace.data());
    for (const std::int64_t row : {0, 2, 3, 9}) {
      const std::int64_t group = row < 3 ? 0 : 2;
      const Bytes own(blocks.begin() + format.bytes_of(group * outputs * inputs),
                      blocks.begin() + format.bytes_of((group + 1) * outputs * inputs));
      const std::vector<bfloat16> one(x.begin() + row * inputs, x.begin() + (row + 1) * inputs);
      const std::vector<float> want = product(format, one, own, 1, outputs, inputs);
      for (std::int64_t j = 0; j < outputs; ++j)
        EXPECT_EQ(to_float(y[un(row * outputs + j)]), to_float(to_bfloat16(want[un(j)]))) << row;
    }
  });
}

}  // namespace
}  // namespace lamina::cpu
