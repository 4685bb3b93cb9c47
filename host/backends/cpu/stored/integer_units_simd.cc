#include "backends/cpu/stored/integer_gemm.h"

#if defined(__AVX512F__)
#include <algorithm>
#include <cstring>

#include "backends/cpu/gemm/matrix_units.h"
#include "backends/cpu/gemm/tile_finish_simd.h"
#include "backends/cpu/simd/simd.h"
#include "backends/cpu/stored/integer_panels_simd.h"
#include "core/round_up.h"
#endif

namespace lamina::cpu {
namespace {

#if defined(__AVX512F__)

constexpr int kSlabRows = 16, kTiles = kTileColumns / kLanes;
static_assert(kLanes == 16 && kTiles == 3);

// One block of 32 values of kSlabRows rows of x.
struct alignas(64) UnitBlock {
  static constexpr int kParts = 2;
  std::int8_t codes[kSlabRows][kActivationBlock];
  std::int32_t init[kParts][kSlabRows];  // -offset of w * sum of the codes of a half
  float sums[kSlabRows];                 // scale * sum of the codes
  float scales[kSlabRows];
};

void pack_rows(const QuantisedStep* rows, std::int64_t count, std::int64_t k, int offset,
               std::byte* slab) {
  auto* out = reinterpret_cast<UnitBlock*>(slab);
  const std::int64_t steps = divide_up(k, std::int64_t{QuantisedStep::kValues});
  constexpr int kBlockLanes = kActivationBlock / 4, kHalfLanes = kBlockLanes / UnitBlock::kParts;
  for (std::int64_t block = 0; block < k / kActivationBlock; ++block, ++out)
    for (int r = 0; r < kSlabRows; ++r) {
      const QuantisedStep& q = rows[std::min<std::int64_t>(r, count - 1) * steps + block / 2];
      const int lane = static_cast<int>(block % 2) * kBlockLanes;
      std::memcpy(out->codes[r], q.codes + 4 * lane, kActivationBlock);
      std::int32_t all = 0;
      for (int part = 0; part < UnitBlock::kParts; ++part) {
        std::int32_t sum = 0;
        for (int i = 0; i < kHalfLanes; ++i) sum += q.sums[lane + part * kHalfLanes + i];
        out->init[part][r] = -offset * sum;
        all += sum;
      }
      out->scales[r] = q.scales[lane];
      out->sums[r] = static_cast<float>(all) * q.scales[lane];
    }
}

// The products of 16 rows of x and 16 columns of w, for one part of a block.
using Products = std::int32_t[kSlabRows][kLanes];
using Sums = float[kSlabRows][kTileColumns];

// Sets products to the sums of one part of a block for columns from `column` on. Tile 0 contains
// products, 1 rows of x, 2 columns.
template <class Unit, int kParts, bool kHasMinimum>
void multiply_part(const UnitBlock& x, const PanelBlock<kParts, kHasMinimum>& w, int part,
                   int column, Products& products) {
  constexpr int kPartValues = kActivationBlock / kParts;
  Unit::template zero<0>();
  Unit::template load<1>(x.codes[0] + part * kPartValues, kActivationBlock);
  Unit::template load<2>(w.codes[part * kPartValues / 4][column], kTileColumns * 4);
  Unit::template multiply_int8<0, 1, 2, kHasMinimum ? Signs::su : Signs::ss>();
  Unit::template store<0>(products[0], kLanes * 4);
}

// Adds the products of one part, times scales, to the sums, in the order of integer_gemm.h.
template <int kParts, bool kHasMinimum>
LAMINA_SIMD void add_part(const UnitBlock& x, const PanelBlock<kParts, kHasMinimum>& w, int part,
                          int column, const Products& products, Float (&sums)[kSlabRows]) {
  const Float w_scales = load(w.scales[part] + column);
#pragma GCC unroll 16
  for (int r = 0; r < kSlabRows; ++r) {
    Int product = load_raw<Int>(products[r]);
    if constexpr (kHasMinimum) {
      sums[r] = fma(load(w.scales[kParts + part] + column),
                    splat(factor_of_minimum<kParts>(x, part, r)), sums[r]);
      product = product + splat<Int>(init_of<kParts, kHasMinimum>(x, part, r));
    }
    sums[r] = fma(convert<Float>(product) * splat(x.scales[r]), w_scales, sums[r]);
  }
}

// Adds the products of `count` blocks to 16 columns of sums. They stay in registers, and the unit
// works on the next products meanwhile.
template <class Unit, int kParts, bool kHasMinimum>
void add_blocks(const UnitBlock* x, const PanelBlock<kParts, kHasMinimum>* w, std::int64_t count,
                int column, Sums& all) {
  constexpr int kAhead = 2;
  alignas(64) Products products[kAhead];
  Float sums[kSlabRows];
#pragma GCC unroll 16
  for (int r = 0; r < kSlabRows; ++r) sums[r] = load(all[r] + column);
  const std::int64_t parts = count * kParts;
  const auto multiply = [&](std::int64_t i) __attribute__((always_inline)) {
    multiply_part<Unit>(x[i / kParts], w[i / kParts], static_cast<int>(i % kParts), column,
                        products[i % kAhead]);
  };
  multiply(0);
  for (std::int64_t i = 0; i < parts; ++i) {
    if (i + 1 < parts) multiply(i + 1);
    add_part(x[i / kParts], w[i / kParts], static_cast<int>(i % kParts), column,
             products[i % kAhead], sums);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kSlabRows; ++r) store(all[r] + column, sums[r]);
}

template <class Unit, int kParts, bool kHasMinimum>
void multiply(const TileArguments& t, const std::byte* slabs, const std::byte* panel) {
  constexpr auto kPartBytes = static_cast<std::uint8_t>(kActivationBlock / kParts);
  constexpr auto kPartRows = static_cast<std::uint8_t>(kPartBytes / 4);
  constexpr std::int64_t kBlocksAtOnce = 32;  // of x: 24 KiB stay in L1 for all columns
  const auto* w = reinterpret_cast<const PanelBlock<kParts, kHasMinimum>*>(panel);
  const auto* x = reinterpret_cast<const UnitBlock*>(slabs);
  const std::int64_t blocks = t.k / kActivationBlock;
  Unit::configure(
      {.rows = {16, kSlabRows, kPartRows}, .row_bytes = {64, kPartBytes, 64, 64, 64, 64, 64, 64}});
  for (std::int64_t row = 0; row < t.m; row += kSlabRows, x += blocks) {
    alignas(64) Sums sums = {};
    for (std::int64_t block = 0; block < blocks; block += kBlocksAtOnce)
      for (int column = 0; column < t.n; column += kLanes)
        add_blocks<Unit>(x + block, w + block, std::min(kBlocksAtOnce, blocks - block), column,
                         sums);
    finish(t, sums[0], kTileColumns, row, std::min<std::int64_t>(kSlabRows, t.m - row), 0, t.n);
  }
  Unit::release();
}

// Makes the codes of a panel signed, unless its format has minima: then sums need no offset.
void make_signed(const IntegerTileFunctions::Format& format, std::int64_t blocks,
                 std::byte* panel) {
  if (format.has_minimum) return;
  const auto subtract = [&](auto* block) {
    for (std::int64_t i = 0; i < blocks; ++i)
      for (auto& word : block[i].codes)
        for (auto& codes : word)
          for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(code - format.offset);
  };
  if (format.parts == 1)
    subtract(reinterpret_cast<PanelBlock<1, false>*>(panel));
  else
    subtract(reinterpret_cast<PanelBlock<2, false>*>(panel));
}

template <class Unit>
constexpr IntegerUnitFunctions::Unit functions_of(std::string_view name) {
  return {{{multiply<Unit, 1, false>, multiply<Unit, 1, true>},
           {multiply<Unit, 2, false>, multiply<Unit, 2, true>}},
          name};
}

constexpr IntegerUnitFunctions kFunctions = {functions_of<PlainTiles>("integer tiles emulated"),
                                             functions_of<AmxTiles>("integer tiles amx"),
                                             {kSlabRows, sizeof(UnitBlock), pack_rows},
                                             make_signed};
#else
constexpr IntegerUnitFunctions kFunctions = {};
#endif

}  // namespace

constinit const IntegerUnitFunctions IntegerUnitFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
