// Products of integers by AVX2, AVX-VNNI and AVX-512 have the same bits. The tests run the kernels
// for AVX-VNNI with an instruction of AVX-512, since few machines have both.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "backends/cpu/stored/integer_gemm.h"
#include "backends/cpu/stored/prepared_rows.h"
#include "backends/cpu/stored/stored_dots.h"
#include "backends/cpu/threads/isa.h"
#include "core/float16.h"
#include "support/aligned_bytes.h"
#include "support/stored_blocks.h"

namespace lamina::cpu {
namespace {

using formats::BlockFormat;
using testing::AlignedBytes;

constexpr std::int64_t kOutputs = 70, kRows = 7;

std::vector<bfloat16> random_activations(std::int64_t count) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<bfloat16> out(static_cast<std::size_t>(count));
  for (bfloat16& x : out) x = to_bfloat16(normal(random));
  return out;
}

// Calls check(format, index of its functions) for the formats of a table.
template <typename Table, typename Check>
void for_all_formats(const Table& table, const Check& check) {
  for (std::size_t i = 0; i < table.num_formats; ++i)
    for (const BlockFormat& format : formats::block_formats())
      if (format.name == table.formats[i].name) {
        SCOPED_TRACE(format.name);
        check(format, i);
      }
}

std::vector<float> few_rows(const StoredDotFunctions& table, std::size_t index,
                            const BlockFormat& format, std::int64_t k) {
  const StoredDotFunctions::Format& functions = table.formats[index];
  const std::vector<std::byte> w = testing::random_blocks(format, kOutputs * k, 6);
  const std::vector<bfloat16> x = random_activations(kRows * k);
  const PreparedRows rows(k, *functions.form);
  AlignedBytes quantised(rows.bytes(kRows));
  rows.prepare(x.data(), k, kRows, quantised.data());
  std::vector<float> out(kOutputs * kRows);
  RowsArguments a = {};
  a.m = kRows, a.k = k, a.ldo = kOutputs;
  a.x = quantised.data(), a.w = w.data(), a.out = out.data();
  functions.run(a, 0, kOutputs);
  return out;
}

std::vector<float> many_rows(const IntegerTileFunctions& table, std::size_t index,
                             const BlockFormat& format, std::int64_t k) {
  const IntegerTileFunctions::Format& functions = table.formats[index];
  const std::int64_t blocks = k / kActivationBlock, columns = kTileColumns - 5;
  const std::vector<std::byte> w = testing::random_blocks(format, columns * k, 6);
  const std::vector<bfloat16> x = random_activations(kRows * k);
  const PreparedRows rows(k);
  AlignedBytes quantised(rows.bytes(kRows));
  rows.prepare(x.data(), k, kRows, quantised.data());
  const std::int64_t slab_rows = functions.slabs.rows, slabs = (kRows + slab_rows - 1) / slab_rows;
  const std::size_t slab_bytes = functions.slabs.block_bytes * static_cast<std::size_t>(blocks);
  AlignedBytes packed(slab_bytes * static_cast<std::size_t>(slabs));
  for (std::int64_t slab = 0; slab < slabs; ++slab)
    functions.slabs.pack(
        reinterpret_cast<const QuantisedStep*>(quantised.data()) + slab * slab_rows * rows.steps(),
        std::min(slab_rows, kRows - slab * slab_rows), k, functions.offset,
        packed.data() + static_cast<std::size_t>(slab) * slab_bytes);
  AlignedBytes panel(static_cast<std::size_t>(functions.panel_bytes * blocks));
  functions.pack(w.data(), columns, k, panel.data());
  std::vector<float> out(static_cast<std::size_t>(kRows * columns));
  TileArguments t = {};
  t.m = kRows, t.n = columns, t.k = k, t.c = out.data(), t.ldc = columns;
  functions.multiply(t, packed.data(), panel.data());
  return out;
}

template <typename Table, typename Run>
void expect_same_bits(const Run& run) {
  if (best_isa() < Isa::avx512) GTEST_SKIP() << "needs AVX-512";
  for_all_formats(Table::avx2, [&](const BlockFormat& format, std::size_t index) {
    const std::int64_t k = 3 * format.num_values;
    const std::vector<float> want = run(Table::avx512, index, format, k);
    const auto expect_equal = [&](const Table& table, const char* name) {
      const std::vector<float> got = run(table, index, format, k);
      EXPECT_EQ(0, std::memcmp(got.data(), want.data(), want.size() * sizeof(float))) << name;
    };
    expect_equal(Table::avx2, "avx2");
    expect_equal(Table::avx2_vnni_of_avx512, "avx2_vnni");
  });
}

TEST(AvxVnni, ProductsOfFewRowsHaveTheBitsOfAvx2AndOfAvx512) {
  expect_same_bits<StoredDotFunctions>(few_rows);
}

TEST(AvxVnni, ProductsOfManyRowsHaveTheBitsOfAvx2AndOfAvx512) {
  expect_same_bits<IntegerTileFunctions>(many_rows);
}

// The largest codes and activations: sums of pairs in 16 bits must not saturate.
TEST(AvxVnni, LargestProductsHaveTheBitsOfAvx2AndOfAvx512) {
  if (best_isa() < Isa::avx512) GTEST_SKIP() << "needs AVX-512";
  const auto largest = [](const auto& table, std::size_t index, const BlockFormat& format,
                          std::byte fill) {
    const std::int64_t k = 256, n = 16;
    std::vector<std::byte> w(static_cast<std::size_t>(n * k / format.num_values) *
                                 static_cast<std::size_t>(format.num_bytes),
                             fill);
    testing::remove_nans(format, w);
    const std::vector<bfloat16> x(static_cast<std::size_t>(k), to_bfloat16(-1.0f));
    const PreparedRows rows(k, *table.formats[index].form);
    AlignedBytes quantised(rows.bytes(1));
    rows.prepare(x.data(), k, 1, quantised.data());
    std::vector<float> out(static_cast<std::size_t>(n));
    RowsArguments a = {};
    a.m = 1, a.k = k, a.ldo = n;
    a.x = quantised.data(), a.w = w.data(), a.out = out.data();
    table.formats[index].run(a, 0, n);
    return out;
  };
  for_all_formats(StoredDotFunctions::avx2, [&](const BlockFormat& format, std::size_t index) {
    for (const std::byte fill : {std::byte{0x80}, std::byte{0x7f}, std::byte{0x77}}) {
      const auto want = largest(StoredDotFunctions::avx512, index, format, fill);
      for (const StoredDotFunctions* table :
           {&StoredDotFunctions::avx2, &StoredDotFunctions::avx2_vnni_of_avx512}) {
        const auto got = largest(*table, index, format, fill);
        EXPECT_EQ(0, std::memcmp(got.data(), want.data(), want.size() * sizeof(float)))
            << table->formats[index].kernel << " " << std::to_integer<int>(fill);
      }
    }
  });
}

TEST(AvxVnni, IsUsedOnlyForTheKernelsOfAvx2) {
  for (const Isa isa : {Isa::portable, Isa::avx512, Isa::avx512_bf16}) {
    const ScopedIsa scoped(isa);
    if (best_isa() == isa) {
      EXPECT_FALSE(has_avx_vnni()) << name(isa);
    }
  }
  const ScopedIsa scoped(Isa::avx2);
  if (best_isa() != Isa::avx2) GTEST_SKIP() << "needs AVX2";
  EXPECT_EQ(&isa_table<StoredDotFunctions>(),
            has_avx_vnni() ? &StoredDotFunctions::avx2_vnni : &StoredDotFunctions::avx2);
}

}  // namespace
}  // namespace lamina::cpu
