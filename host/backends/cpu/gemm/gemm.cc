// Chooses between weight streaming (few rows), oneDNN tiles and our own tiles.
#include "backends/cpu/gemm/gemm.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "backends/cpu/device/isa.h"
#include "backends/cpu/device/scratch.h"
#include "backends/cpu/device/threads.h"
#include "backends/cpu/gemm/gemv.h"
#include "backends/cpu/gemm/onednn.h"
#include "backends/cpu/gemm/tile_simd.h"
#include "core/error.h"
#include "runtime/backend.h"

namespace lamina::cpu {
namespace {

// How C is cut into tiles. Only shapes decide, so that the bits are the same for any pool.
struct Tiling {
  std::int64_t rows, columns;          // of a full tile
  std::int64_t num_rows, num_columns;  // tiles along m and n
};

// A power of two up to 8, then multiples of 8: shares come out equal for the usual pool sizes.
std::int64_t even_count(std::int64_t count) {
  return count <= 8 ? static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count)))
                    : round_up(count, 8);
}

Tiling cut(const GemmSpec& s, std::int64_t max_rows, std::int64_t max_columns) {
  Tiling t;
  t.rows = std::min(s.m, round_up(divide_up(s.m, even_count(divide_up(s.m, max_rows))), 16));
  t.columns = std::min(s.n, round_up(divide_up(s.n, even_count(divide_up(s.n, max_columns))), 32));
  t.num_rows = divide_up(s.m, t.rows);
  t.num_columns = divide_up(s.n, t.columns);
  return t;
}

// Measured on two Zen 4 cores, within 3 % of the best tile for the products of a 124M GPT-2 that
// were tried (bf16, 1024 tokens). Every tile repacks its part of B, and of a transposed A: the
// first wants tall tiles, the second wide ones. Taller than 512 rows only where enough tiles are
// left to share.
Tiling cut(const GemmSpec& s) {
  constexpr std::int64_t kManyTiles = 16;
  if (s.a_transposed) return cut(s, 512, 768);
  const Tiling t = cut(s, 512, 512);
  return t.num_rows * t.num_columns >= kManyTiles ? cut(s, 1024, 512) : t;
}

// A spec with the defaults filled in, and its operands as strides.
struct Layout {
  explicit Layout(const GemmSpec& s)
      : a_row(s.a_transposed ? 1 : s.lda),
        a_column(s.a_transposed ? s.lda : 1),
        b_row(s.b_transposed ? 1 : s.ldb),
        b_column(s.b_transposed ? s.ldb : 1) {}
  std::int64_t a_row, a_column, b_row, b_column;
};

const void* advance(const void* base, std::int64_t elements, DType dtype) {
  return base == nullptr ? nullptr : static_cast<const char*>(base) + elements * size_bytes(dtype);
}

void* advance(void* base, std::int64_t elements, DType dtype) {
  return static_cast<char*>(base) + elements * size_bytes(dtype);
}

struct Operands {
  const void* a;
  const void* b;
  const void* bias;
  void* c;
};

// A product done tile by tile, each on one thread. `multiply` does one tile.
class TiledGemm : public Gemm {
 public:
  explicit TiledGemm(const GemmSpec& spec)
      : spec_(spec), layout_(spec), tiling_(cut(spec)), num_threads_(num_threads()) {}

  std::size_t workspace_bytes() const override {
    return scratch_bytes() * static_cast<std::size_t>(num_threads_);
  }

  void run(const void* a, const void* b, const void* bias, void* c,
           std::byte* workspace) const override {
    LAMINA_ASSERT(num_threads() <= num_threads_);
    const std::size_t scratch = scratch_bytes();
    // Consecutive tasks share their columns of B, the operand that tiles repack.
    parallel_tasks(tiling_.num_rows * tiling_.num_columns, [&](std::int64_t task, int thread) {
      const std::int64_t row = task % tiling_.num_rows * tiling_.rows;
      const std::int64_t column = task / tiling_.num_rows * tiling_.columns;
      Operands tile;
      tile.a = advance(a, row * layout_.a_row, spec_.in);
      tile.b = advance(b, column * layout_.b_column, spec_.in);
      tile.bias = spec_.bias ? advance(bias, column, *spec_.bias) : nullptr;
      tile.c = advance(c, row * spec_.ldc + column, spec_.out);
      multiply(thread, row, column, tile, workspace + scratch * static_cast<std::size_t>(thread));
    });
  }

 protected:
  virtual std::size_t scratch_bytes() const = 0;  // of one thread, a multiple of 64
  virtual void multiply(int thread, std::int64_t row, std::int64_t column, const Operands& tile,
                        std::byte* scratch) const = 0;

  std::int64_t rows_at(std::int64_t row) const { return std::min(tiling_.rows, spec_.m - row); }
  std::int64_t columns_at(std::int64_t column) const {
    return std::min(tiling_.columns, spec_.n - column);
  }

  GemmSpec spec_;
  Layout layout_;
  Tiling tiling_;
  int num_threads_;
};

class OnednnGemm : public TiledGemm {
 public:
  using TiledGemm::TiledGemm;

  // Makes the primitives: of full tiles, of the last row and column of tiles, of the corner. Those
  // are often full tiles, too.
  bool prepare(std::string* why) {
    for (bool last_row : {false, true})
      for (bool last_column : {false, true}) {
        OnednnShape shape;
        shape.m = last_row ? spec_.m - (tiling_.num_rows - 1) * tiling_.rows : tiling_.rows;
        shape.n =
            last_column ? spec_.n - (tiling_.num_columns - 1) * tiling_.columns : tiling_.columns;
        shape.k = spec_.k;
        shape.a_row_stride = layout_.a_row;
        shape.a_col_stride = layout_.a_column;
        shape.b_row_stride = layout_.b_row;
        shape.b_col_stride = layout_.b_column;
        shape.ldc = spec_.ldc;
        shape.in = spec_.in;
        shape.out = spec_.out;
        shape.bias = spec_.bias;
        shape.accumulate = spec_.accumulate;
        auto& product = products_[last_row][last_column];
        if (last_row && shape.m == tiling_.rows)
          product = products_[false][last_column];
        else if (last_column && shape.n == tiling_.columns)
          product = products_[last_row][false];
        else
          product = OnednnProduct::make(shape, num_threads_, why);
        if (product == nullptr) return false;
        scratch_bytes_ = std::max(scratch_bytes_, product->scratch_bytes());
      }
    scratch_bytes_ = aligned(scratch_bytes_);
    return true;
  }

  std::string_view kernel() const override { return "onednn"; }

 protected:
  std::size_t scratch_bytes() const override { return scratch_bytes_; }

  void multiply(int thread, std::int64_t row, std::int64_t column, const Operands& tile,
                std::byte* scratch) const override {
    const bool last_row = row + tiling_.rows >= spec_.m;
    const bool last_column = column + tiling_.columns >= spec_.n;
    products_[last_row][last_column]->run(thread, {tile.a, tile.b, tile.bias, tile.c, scratch});
  }

 private:
  std::shared_ptr<const OnednnProduct> products_[2][2];
  std::size_t scratch_bytes_ = 0;
};

// Our own tiles, also for k = 0.
class OwnGemm : public TiledGemm {
 public:
  explicit OwnGemm(const GemmSpec& spec)
      : TiledGemm(spec), functions_(isa_table<TileFunctions>()) {}

  std::string_view kernel() const override { return functions_.name; }

 protected:
  std::size_t scratch_bytes() const override {
    return sizeof(float) * static_cast<std::size_t>(
                               round_up(tile_scratch_floats(tiling_.rows, tiling_.columns), 16));
  }

  void multiply(int, std::int64_t row, std::int64_t column, const Operands& tile,
                std::byte* scratch) const override {
    TileArguments t = {};
    t.m = rows_at(row);
    t.n = columns_at(column);
    t.k = spec_.k;
    t.a = tile.a;
    t.a_row_stride = layout_.a_row;
    t.a_col_stride = layout_.a_column;
    t.b = tile.b;
    t.b_row_stride = layout_.b_row;
    t.b_col_stride = layout_.b_column;
    t.bias = tile.bias;
    t.c = tile.c;
    t.ldc = spec_.ldc;
    t.bf16_in = spec_.in == DType::bf16;
    t.bf16_out = spec_.out == DType::bf16;
    t.bf16_bias = spec_.bias == DType::bf16;
    t.accumulate = spec_.accumulate;
    t.scratch = reinterpret_cast<float*>(scratch);
    functions_.multiply(t);
  }

 private:
  const TileFunctions& functions_;
};

class StreamedGemm : public Gemm {
 public:
  explicit StreamedGemm(std::unique_ptr<GemvGroup> group) : group_(std::move(group)) {}
  std::size_t workspace_bytes() const override { return 0; }
  void run(const void* a, const void* b, const void* bias, void* c, std::byte*) const override {
    const std::array<GemvOperands, 1> operands = {{{b, c, bias, c}}};
    group_->run(a, operands);
  }
  std::string_view kernel() const override { return group_->kernel(); }

 private:
  std::unique_ptr<GemvGroup> group_;
};

// m = 0 or n = 0.
class EmptyGemm : public Gemm {
 public:
  std::size_t workspace_bytes() const override { return 0; }
  void run(const void*, const void*, const void*, void*, std::byte*) const override {}
  std::string_view kernel() const override { return "nothing to do"; }
};

bool is_bf16_or_f32(DType dtype) { return dtype == DType::bf16 || dtype == DType::f32; }

std::string refusal(const GemmSpec& s) {
  if (s.m < 0 || s.n < 0 || s.k < 0)
    return fmt::format("m = {}, n = {}, k = {}; a dimension cannot be negative", s.m, s.n, s.k);
  if (!is_bf16_or_f32(s.in) || !is_bf16_or_f32(s.out))
    return fmt::format("{} to {}; products take and give bf16 or f32", name(s.in), name(s.out));
  if (s.bias && !is_bf16_or_f32(*s.bias))
    return fmt::format("{} bias; it must be bf16 or f32", name(*s.bias));
  const std::int64_t a_width = s.a_transposed ? s.m : s.k;
  const std::int64_t b_width = s.b_transposed ? s.k : s.n;
  if (s.lda < a_width || s.ldb < b_width || s.ldc < s.n)
    return fmt::format("rows of {}, {} and {} elements do not fit {}, {} and {} apart", a_width,
                       b_width, s.n, s.lda, s.ldb, s.ldc);
  return "";
}

GemmSpec with_defaults(GemmSpec s) {
  if (s.lda == 0) s.lda = s.a_transposed ? s.m : s.k;
  if (s.ldb == 0) s.ldb = s.b_transposed ? s.k : s.n;
  if (s.ldc == 0) s.ldc = s.n;
  return s;
}

// Up to how many rows streaming the weights beats tiles, which repack them first. Measured with
// AVX-512 bf16; the bound for the lower instruction sets is a guess.
std::int64_t max_streamed_rows(bool b_transposed) {
  if (!b_transposed) return 4;
  return best_isa() >= Isa::avx512 ? kMaxGemvRows : 16;
}

bool streams(const GemmSpec& s) {
  return !s.a_transposed && s.m <= max_streamed_rows(s.b_transposed);
}

std::unique_ptr<Gemm> make_streamed(const GemmSpec& s, std::string* why) {
  GemvGroupSpec group;
  group.m = s.m;
  group.k = s.k;
  group.in = s.in;
  group.out = s.out;
  group.w_transposed = s.b_transposed;
  group.ldx = s.lda;
  group.matrices = {{.n = s.n, .ldw = s.ldb, .ldo = s.ldc, .bias = s.bias}};
  group.add = s.accumulate;
  auto streamed = make_gemv_group(group, why);
  if (streamed == nullptr) return nullptr;
  return std::make_unique<StreamedGemm>(std::move(streamed));
}

// oneDNN 2.6 multiplies f32 well from AVX-512 on, bf16 only with the bf16 instructions.
bool has_fast_onednn(const GemmSpec& s) {
  return s.k > 0 && best_isa() >= (s.in == DType::bf16 ? Isa::avx512_bf16 : Isa::avx512);
}

}  // namespace

std::unique_ptr<Gemm> make_gemm(const GemmSpec& requested, std::string* why) {
  const GemmSpec spec = with_defaults(requested);
  *why = refusal(spec);
  if (!why->empty()) return nullptr;
  if (spec.m == 0 || spec.n == 0) return std::make_unique<EmptyGemm>();
  if (streams(spec)) return make_streamed(spec, why);
  if (has_fast_onednn(spec)) {
    auto gemm = std::make_unique<OnednnGemm>(spec);
    if (gemm->prepare(why)) return gemm;
  }
  why->clear();
  return std::make_unique<OwnGemm>(spec);
}

}  // namespace lamina::cpu
