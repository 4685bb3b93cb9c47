#include "backends/cpu/stored/integer_gemm.h"

#if defined(__AVX512F__)
#include <algorithm>
#include <cstring>

#include "backends/cpu/gemm/tile_finish_simd.h"
#include "backends/cpu/gemm/tile_units.h"
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

using Products = std::int32_t[kSlabRows][kTileColumns];
using Sums = float[kSlabRows][kTileColumns];

// Sets products to the sums of one part of a block. Tiles 0 to 2 contain products, 3 rows of x,
// 4 to 6 columns.
template <class Unit, int kParts>
void multiply_part(const UnitBlock& x, const std::uint8_t (*codes)[kTileColumns][4], int part,
                   Products& products) {
  constexpr std::int64_t kStep = kTileColumns * 4, kTileBytes = kLanes * 4;
  constexpr int kPartValues = kActivationBlock / kParts;
  const std::uint8_t* columns = codes[part * kPartValues / 4][0];
  Unit::template load<3>(x.codes[0] + part * kPartValues, kActivationBlock);
  Unit::template zero<0>();
  Unit::template load<4>(columns, kStep);
  Unit::template multiply_int8<0, 3, 4, Signs::su>();
  Unit::template zero<1>();
  Unit::template load<5>(columns + kTileBytes, kStep);
  Unit::template multiply_int8<1, 3, 5, Signs::su>();
  Unit::template zero<2>();
  Unit::template load<6>(columns + 2 * kTileBytes, kStep);
  Unit::template multiply_int8<2, 3, 6, Signs::su>();
  Unit::template store<0>(products[0], kStep);
  Unit::template store<1>(products[0] + kLanes, kStep);
  Unit::template store<2>(products[0] + 2 * kLanes, kStep);
}

// Adds the products of one part, times scales, to the sums, in the order of integer_gemm.h.
template <int kParts, bool kHasMinimum>
LAMINA_SIMD void add_part(const UnitBlock& x, const PanelBlock<kParts, kHasMinimum>& w, int part,
                          const Products& products, Sums& sums) {
  for (int v = 0; v < kTiles; ++v) {
    const int column = v * kLanes;
    const Float w_scales = load(w.scales[part] + column);
    for (int r = 0; r < kSlabRows; ++r) {
      Float sum = load(sums[r] + column);
      if constexpr (kHasMinimum)
        sum = fma(load(w.scales[kParts + part] + column),
                  splat(factor_of_minimum<kParts>(x, part, r)), sum);
      const std::int32_t init = init_of<kParts, kHasMinimum>(x, part, r);
      const Int product = load_raw<Int>(products[r] + column) + splat<Int>(init);
      store(sums[r] + column, fma(convert<Float>(product) * splat(x.scales[r]), w_scales, sum));
    }
  }
}

template <class Unit, int kParts, bool kHasMinimum>
void multiply(const TileArguments& t, const std::byte* slabs, const std::byte* panel) {
  constexpr auto kPartBytes = static_cast<std::uint8_t>(kActivationBlock / kParts);
  constexpr auto kPartRows = static_cast<std::uint8_t>(kPartBytes / 4);
  const auto* w = reinterpret_cast<const PanelBlock<kParts, kHasMinimum>*>(panel);
  const auto* x = reinterpret_cast<const UnitBlock*>(slabs);
  const std::int64_t blocks = t.k / kActivationBlock;
  Unit::configure({.rows = {16, 16, 16, kSlabRows, kPartRows, kPartRows, kPartRows, 0},
                   .row_bytes = {64, 64, 64, kPartBytes, 64, 64, 64, 64}});
  for (std::int64_t row = 0; row < t.m; row += kSlabRows, x += blocks) {
    alignas(64) Products products;
    alignas(64) Sums sums = {};
    for (std::int64_t block = 0; block < blocks; ++block)
      for (int part = 0; part < kParts; ++part) {
        multiply_part<Unit, kParts>(x[block], w[block].codes, part, products);
        add_part(x[block], w[block], part, products, sums);
      }
    finish(t, sums[0], kTileColumns, row, std::min<std::int64_t>(kSlabRows, t.m - row), 0, t.n);
  }
  Unit::release();
}

template <class Unit>
constexpr IntegerUnitFunctions::Unit functions_of(std::string_view name) {
  return {{{multiply<Unit, 1, false>, multiply<Unit, 1, true>},
           {multiply<Unit, 2, false>, multiply<Unit, 2, true>}},
          name};
}

constexpr IntegerUnitFunctions kFunctions = {functions_of<PlainTiles>("integer tiles emulated"),
                                             functions_of<AmxTiles>("integer tiles amx"),
                                             {kSlabRows, sizeof(UnitBlock), pack_rows}};
#else
constexpr IntegerUnitFunctions kFunctions = {};
#endif

}  // namespace

constinit const IntegerUnitFunctions IntegerUnitFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
