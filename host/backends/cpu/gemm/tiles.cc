#include "backends/cpu/gemm/tiles.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "backends/cpu/stored/stored_rows.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kMaxRows = 2048;  // that threads multiply at once

std::size_t sums_bytes(const TileProduct& product, std::int64_t m, std::int64_t n,
                       const DepthBlocks& blocks) {
  if (blocks.count == 1) return 0;
  return sizeof(float) * static_cast<std::size_t>(product.num_sums(m, n));
}

// Returns the blocks of k that suit the product, or the fewest if their sums would take much
// memory.
DepthBlocks depth_blocks(const GemmSpec& s, const TileProduct& product) {
  constexpr std::size_t kMaxSums = std::size_t{64} << 20;
  const DepthBlocks blocks(s.k, product.division.max_depth);
  return sums_bytes(product, std::min(s.m, kMaxRows), s.n, blocks) <= kMaxSums ? blocks
                                                                               : DepthBlocks(s.k);
}

// Returns the part of a product that is in one block of k.
TileArguments part_of(const TileArguments& whole, DType in, const DepthBlocks& blocks,
                      std::int64_t block, float* sums) {
  TileArguments t = whole;
  t.k = blocks.depth_of(block);
  t.a = whole.a.from(0, blocks.first(block), size_bytes(in));
  t.b = whole.b.from(0, blocks.first(block), size_bytes(in));
  t.sums = blocks.count > 1 ? sums : nullptr;
  t.is_first = block == 0;
  t.is_last = block + 1 == blocks.count;
  return t;
}

// Number of rows of A that threads multiply at once: as many as stay in their shared caches.
std::int64_t rows_at_once(const GemmSpec& s, const DepthBlocks& blocks) {
  constexpr std::int64_t kMaxBytes = std::int64_t{4} << 20;
  const std::int64_t row_bytes = std::max<std::int64_t>(1, blocks.depth * size_bytes(s.in));
  const std::int64_t max_rows =
      std::clamp(kMaxBytes / row_bytes / kPackedRows * kPackedRows, kPackedRows, kMaxRows);
  return std::min(s.m, round_up(divide_up(s.m, divide_up(s.m, max_rows)), kPackedRows));
}

// Computes blocks of rows and of k one after the other; in each, threads pack panels of B and
// multiply them with all rows. The division changes no bits.
class TiledGemm final : public Gemm {
 public:
  explicit TiledGemm(const GemmSpec& s)
      : spec_(s),
        product_(best_tile_product(s.in)),
        blocks_(depth_blocks(s, product_)),
        rows_(rows_at_once(s, blocks_)),
        num_threads_(num_threads()) {
    const std::int64_t panels = divide_up(s.n, product_.panel_columns), parts = num_parts(panels);
    part_rows_ = round_up(divide_up(rows_, parts), 2 * kPackedRows);
    parts_ = divide_up(rows_, part_rows_);
    task_columns_ = product_.panel_columns * task_panels(panels);
    tasks_ = divide_up(s.n, task_columns_);
    a_ = {nullptr, s.a_transposed ? 1 : s.lda, s.a_transposed ? s.lda : 1};
    b_ = {nullptr, s.b_transposed ? s.ldb : 1, s.b_transposed ? 1 : s.ldb};
    for (std::int64_t block : {std::int64_t{0}, blocks_.count - 1})
      if (!needs_no_packing(block))
        packed_bytes_ = std::max(packed_bytes_,
                                 aligned(product_.packed_a_bytes(rows_, blocks_.depth_of(block))));
    sums_bytes_ = sums_bytes(product_, part_rows_ * parts_, task_columns_ * tasks_, blocks_);
    scratch_bytes_ = aligned(product_.scratch_bytes(blocks_.depth));
    if (s.b_stored) {
      stored_.emplace(*s.b_stored, s.k, s.in);
      const std::int64_t depth = std::min(s.k, blocks_.depth + 2 * s.b_stored->num_values);
      widened_bytes_ = aligned(static_cast<std::size_t>(task_columns_ * depth * size_bytes(s.in)));
      scratch_bytes_ += widened_bytes_;
    }
  }

  std::size_t workspace_bytes() const override {
    return packed_bytes_ + sums_bytes_ + scratch_bytes_ * static_cast<std::size_t>(num_threads_);
  }

  void run(const void* a, const void* b, const void* bias, void* c,
           std::byte* workspace) const override {
    LAMINA_ASSERT(num_threads() <= num_threads_);
    TileArguments whole = {};
    whole.a = {a, a_.stride, a_.k_stride};
    whole.b = {b, b_.stride, b_.k_stride};
    whole.bias = bias;
    whole.c = c;
    whole.ldc = spec_.ldc;
    whole.bf16_out = spec_.out == DType::bf16;
    whole.bf16_bias = spec_.bias == DType::bf16;
    whole.accumulate = spec_.accumulate;
    whole.streams = uses_streaming_stores(c);
    if (!spec_.bias) whole.bias = nullptr;
    for (std::int64_t row = 0; row < spec_.m; row += rows_) {
      const TileArguments rows = part(whole, row, std::min(rows_, spec_.m - row), 0, spec_.n);
      for (std::int64_t block = 0; block < blocks_.count; ++block)
        run_block(part_of(rows, spec_.in, blocks_, block, nullptr), block, b, workspace);
    }
  }

  std::string_view kernel() const override { return product_.name; }

 private:
  // Returns the number of parts of the rows. More than one if there are few panels, so that all
  // threads have work.
  std::int64_t num_parts(std::int64_t panels) const {
    constexpr std::int64_t kMinUnits = 16, kMinRows = 64;
    const TileDivision& division = product_.division;
    if (division.max_rows == 0)
      return std::clamp<std::int64_t>(divide_up(kMinUnits, panels), 1, divide_up(rows_, kMinRows));
    return std::max(divide_up(rows_, division.max_rows),
                    divide_up(rows_ * blocks_.depth * size_bytes(spec_.in), division.max_bytes));
  }

  // Returns the number of panels of a task: several, because a task packs its first block of B
  // before it multiplies, but fewer if threads would have few tasks.
  std::int64_t task_panels(std::int64_t panels) const {
    constexpr std::int64_t kTasksPerThread = 4;
    if (spec_.b_stored) return 1;
    return std::clamp<std::int64_t>(panels * parts_ / (kTasksPerThread * num_threads_), 1,
                                    product_.division.max_panels);
  }

  bool needs_no_packing(std::int64_t block) const {
    return !product_.division.packs_a && product_.needs_no_packing(a_, blocks_.depth_of(block));
  }

  // True if C is stored past the caches: else each line is read before it is written.
  bool uses_streaming_stores(const void* c) const {
    constexpr std::int64_t kMinBytes = std::int64_t{1} << 20, kLine = 64;
    const auto is_aligned = [](std::int64_t bytes) { return bytes % kLine == 0; };
    return spec_.is_read_late && spec_.out == DType::f32 && !spec_.accumulate &&
           spec_.m * spec_.n * 4 >= kMinBytes && is_aligned(spec_.ldc * 4) &&
           is_aligned(reinterpret_cast<std::intptr_t>(c));
  }

  // Returns the part of a product with these rows and columns.
  TileArguments part(TileArguments t, std::int64_t row, std::int64_t rows, std::int64_t column,
                     std::int64_t columns) const {
    t.m = rows;
    t.n = columns;
    t.a = t.a.from(row, 0, size_bytes(spec_.in));
    t.b = t.b.from(column, 0, size_bytes(spec_.in));
    if (t.bias) t.bias = static_cast<const std::byte*>(t.bias) + column * size_bytes(*spec_.bias);
    t.c = static_cast<std::byte*>(t.c) + (row * t.ldc + column) * size_bytes(spec_.out);
    return t;
  }

  // Widens the panel of stored columns for one block of k.
  TileOperand widened(const void* b, std::int64_t column, std::int64_t columns, std::int64_t block,
                      std::byte* panel) const {
    const std::int64_t first = blocks_.first(block);
    const StoredRows::Span values = stored_->whole_blocks(first, first + blocks_.depth_of(block));
    stored_->widen(b, column, columns, values, panel);
    return TileOperand{panel, values.past - values.first, 1}.from(0, first - values.first,
                                                                  size_bytes(spec_.in));
  }

  void run_block(const TileArguments& block, std::int64_t index, const void* b,
                 std::byte* workspace) const {
    auto* sums = reinterpret_cast<float*>(workspace + packed_bytes_);
    std::byte* scratch = workspace + packed_bytes_ + sums_bytes_;
    const bool is_packed = !needs_no_packing(index);
    if (is_packed) pack_a(block, workspace);
    // One thread computes neighbouring panels: while one is multiplied, the next is fetched.
    parallel_tasks(divide_up(block.m, part_rows_) * tasks_, [&](std::int64_t task, int thread) {
      const std::int64_t row = task / tasks_ * part_rows_;
      const std::int64_t column = task % tasks_ * task_columns_;
      TileArguments t = part(block, row, std::min(part_rows_, block.m - row), column,
                             std::min(task_columns_, spec_.n - column));
      t.following_columns = spec_.n - column - t.n;
      if (is_packed) t.packed_a = workspace + product_.packed_a_bytes(row, block.k);
      if (blocks_.count > 1) t.sums = sums + task * product_.num_sums(part_rows_, task_columns_);
      t.scratch = scratch + scratch_bytes_ * static_cast<std::size_t>(thread);
      if (stored_) {
        t.b = widened(b, column, t.n, index, t.scratch);
        t.following_columns = 0;
        t.scratch += widened_bytes_;
      }
      product_.multiply(t);
    });
  }

  void pack_a(const TileArguments& block, std::byte* packed) const {
    constexpr std::int64_t kRowsPerTask = 8 * kPackedRows;
    parallel_tasks(divide_up(block.m, kRowsPerTask), [&](std::int64_t task) {
      const std::int64_t row = task * kRowsPerTask;
      product_.pack_a(block.a.from(row, 0, size_bytes(spec_.in)),
                      std::min(kRowsPerTask, block.m - row), block.k,
                      packed + product_.packed_a_bytes(row, block.k));
    });
  }

  GemmSpec spec_;
  const TileProduct& product_;
  DepthBlocks blocks_;
  std::int64_t rows_;
  int num_threads_;
  std::int64_t part_rows_ = 0, parts_ = 0;
  std::int64_t task_columns_ = 0, tasks_ = 0;  // of a part of the rows
  TileOperand a_, b_;
  std::size_t packed_bytes_ = 0, sums_bytes_ = 0, scratch_bytes_ = 0;
  std::optional<StoredRows> stored_;  // of B
  std::size_t widened_bytes_ = 0;     // of the scratch of a thread: a panel of a stored B
};

}  // namespace

TileMultiplier::TileMultiplier(DType in, std::int64_t max_m, std::int64_t max_n, std::int64_t max_k)
    : product_(best_tile_product(in)), in_(in) {
  const DepthBlocks blocks(max_k);
  // A smaller k may be divided into deeper blocks.
  const std::int64_t depth = std::min(max_k, DepthBlocks::kMaxDepth);
  packed_bytes_ = aligned(product_.packed_a_bytes(max_m, depth));
  sums_bytes_ = aligned(sums_bytes(product_, max_m, max_n, blocks));
  scratch_bytes_ = packed_bytes_ + sums_bytes_ + product_.scratch_bytes(depth);
}

void TileMultiplier::multiply(TileArguments whole, std::byte* scratch) const {
  const DepthBlocks blocks(whole.k);
  whole.scratch = scratch + packed_bytes_ + sums_bytes_;
  for (std::int64_t block = 0; block < blocks.count; ++block) {
    TileArguments t =
        part_of(whole, in_, blocks, block, reinterpret_cast<float*>(scratch + packed_bytes_));
    if (!product_.needs_no_packing(t.a, t.k)) {
      product_.pack_a(t.a, t.m, t.k, scratch);
      t.packed_a = scratch;
    }
    product_.multiply(t);
  }
}

std::unique_ptr<Gemm> make_tiled_gemm(const GemmSpec& spec) {
  return std::make_unique<TiledGemm>(spec);
}

}  // namespace lamina::cpu
