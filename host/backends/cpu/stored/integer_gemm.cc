#include "backends/cpu/stored/integer_gemm.h"

#include <algorithm>

#include "backends/cpu/stored/find_format.h"
#include "backends/cpu/stored/integer_dots_simd.h"
#include "backends/cpu/stored/integer_tiles_simd.h"
#include "backends/cpu/stored/quantised_rows.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

// Rows of A that are multiplied at once: their quantised forms stay in shared caches.
constexpr std::int64_t kMaxRows = 1024;

const std::byte* at(const void* base, std::int64_t elements, DType dtype) {
  return base ? static_cast<const std::byte*>(base) + elements * size_bytes(dtype) : nullptr;
}
std::byte* at(void* base, std::int64_t elements, DType dtype) {
  return static_cast<std::byte*>(base) + elements * size_bytes(dtype);
}

// Packs panels of B, each with one thread, and multiplies each with all rows.
class TiledIntegerGemm final : public Gemm {
 public:
  TiledIntegerGemm(const GemmSpec& s, const IntegerTileFunctions::Format& format)
      : spec_(s),
        format_(format),
        functions_(isa_table<IntegerTileFunctions>()),
        quantised_(s.k),
        blocks_(s.k / kActivationBlock),
        rows_(std::min(s.m, kMaxRows)),
        num_threads_(num_threads()) {
    quantised_bytes_ = aligned(quantised_.bytes(rows_));
    packed_bytes_ = sizeof(TileBlock) * static_cast<std::size_t>(slabs(rows_) * blocks_);
    panel_bytes_ = aligned(static_cast<std::size_t>(format_.panel_bytes * blocks_));
  }

  std::size_t workspace_bytes() const override {
    return quantised_bytes_ + packed_bytes_ + panel_bytes_ * static_cast<std::size_t>(num_threads_);
  }

  void run(const void* a, const void* b, const void* bias, void* c,
           std::byte* workspace) const override {
    LAMINA_ASSERT(num_threads() <= num_threads_);
    TileArguments whole = {};
    whole.k = spec_.k;
    whole.bias = spec_.bias ? bias : nullptr;
    whole.ldc = spec_.ldc;
    whole.bf16_out = spec_.out == DType::bf16;
    whole.bf16_bias = spec_.bias == DType::bf16;
    whole.accumulate = spec_.accumulate;
    for (std::int64_t row = 0; row < spec_.m; row += rows_) {
      whole.m = std::min(rows_, spec_.m - row);
      whole.c = at(c, row * spec_.ldc, spec_.out);
      pack_rows(at(a, row * spec_.lda, spec_.in), whole.m, workspace);
      multiply(whole, static_cast<const std::byte*>(b), workspace);
    }
  }

  std::string_view kernel() const override { return functions_.name; }

 private:
  static std::int64_t slabs(std::int64_t rows) { return divide_up(rows, std::int64_t{kTileRows}); }

  TileBlock* packed(std::byte* workspace) const {
    return reinterpret_cast<TileBlock*>(workspace + quantised_bytes_);
  }

  void pack_rows(const void* a, std::int64_t rows, std::byte* workspace) const {
    quantised_.quantise(a, spec_.lda, rows, workspace);
    const auto* from = reinterpret_cast<const QuantisedStep*>(workspace);
    parallel_ranges(slabs(rows), 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slab = begin; slab < end; ++slab)
        functions_.pack_rows(from + slab * kTileRows * quantised_.steps(),
                             std::min<std::int64_t>(kTileRows, rows - slab * kTileRows), spec_.k,
                             format_.offset, packed(workspace) + slab * blocks_);
    });
  }

  void multiply(const TileArguments& rows, const std::byte* b, std::byte* workspace) const {
    std::byte* panels = workspace + quantised_bytes_ + packed_bytes_;
    const std::int64_t row_bytes = spec_.b_stored->bytes_of(spec_.k);
    parallel_tasks(divide_up(spec_.n, std::int64_t{kTileColumns}),
                   [&](std::int64_t task, int thread) {
                     const std::int64_t column = task * kTileColumns;
                     TileArguments t = rows;
                     t.n = std::min<std::int64_t>(kTileColumns, spec_.n - column);
                     if (t.bias) t.bias = at(t.bias, column, *spec_.bias);
                     t.c = at(t.c, column, spec_.out);
                     std::byte* panel = panels + panel_bytes_ * static_cast<std::size_t>(thread);
                     format_.pack(b + column * row_bytes, t.n, spec_.k, panel);
                     format_.multiply(t, packed(workspace), panel);
                   });
  }

  GemmSpec spec_;
  const IntegerTileFunctions::Format& format_;
  const IntegerTileFunctions& functions_;
  QuantisedRows quantised_;
  std::int64_t blocks_, rows_;
  int num_threads_;
  std::size_t quantised_bytes_ = 0, packed_bytes_ = 0, panel_bytes_ = 0;
};

// Multiplies rows as products of few rows do, kMaxStreamedRows at a time.
class DotsIntegerGemm final : public Gemm {
 public:
  DotsIntegerGemm(const GemmSpec& s, IntegerDots dots)
      : spec_(s), dots_(dots), quantised_(s.k), rows_(std::min(s.m, kMaxRows)) {}

  std::size_t workspace_bytes() const override { return quantised_.bytes(rows_); }

  void run(const void* a, const void* b, const void* bias, void* c,
           std::byte* workspace) const override {
    RowsArguments whole = {};
    whole.k = spec_.k;
    whole.w = b;
    whole.ldo = spec_.ldc;
    whole.bias = spec_.bias ? bias : nullptr;
    whole.bf16_out = spec_.out == DType::bf16;
    whole.bf16_bias = spec_.bias == DType::bf16;
    for (std::int64_t row = 0; row < spec_.m; row += rows_) {
      const std::int64_t rows = std::min(rows_, spec_.m - row);
      quantised_.quantise(at(a, row * spec_.lda, spec_.in), spec_.lda, rows, workspace);
      std::byte* out = at(c, row * spec_.ldc, spec_.out);
      parallel_shares(spec_.n, kOutputs, kOutputs, [&](std::int64_t begin, std::int64_t end) {
        RowsArguments part = whole;
        for (std::int64_t first = 0; first < rows; first += kMaxStreamedRows) {
          part.m = std::min(kMaxStreamedRows, rows - first);
          part.x = workspace + quantised_.bytes(first);
          part.out = at(out, first * spec_.ldc, spec_.out);
          if (spec_.accumulate) part.addend = part.out;
          dots_(part, begin, end);
        }
      });
    }
  }

  std::string_view kernel() const override { return integer_dots_name(); }

 private:
  static constexpr std::int64_t kOutputs = 16;

  GemmSpec spec_;
  IntegerDots dots_;
  QuantisedRows quantised_;
  std::int64_t rows_;
};

}  // namespace

std::unique_ptr<Gemm> make_integer_gemm(const GemmSpec& spec) {
  const IntegerDots dots = find_integer_dots(spec.b_stored, spec.in);
  if (!dots || spec.a_transposed) return nullptr;
  if (const auto* tiles = find_format<IntegerTileFunctions>(*spec.b_stored))
    return std::make_unique<TiledIntegerGemm>(spec, *tiles);
  return std::make_unique<DotsIntegerGemm>(spec, dots);
}

}  // namespace lamina::cpu
