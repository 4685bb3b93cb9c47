// Divides the products of groups into pieces of about equal cost and distributes them over threads.
#include "backends/cpu/gemm/grouped.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backends/cpu/gemm/gemv.h"
#include "backends/cpu/gemm/tiles.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/scratch.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"
#include "runtime/backend.h"

namespace lamina::cpu {
namespace {

const char* at(const void* base, std::int64_t elements, DType dtype) {
  return base == nullptr ? nullptr : static_cast<const char*>(base) + elements * size_bytes(dtype);
}
char* at(void* base, std::int64_t elements, DType dtype) {
  return static_cast<char*>(base) + elements * size_bytes(dtype);
}

// The rows of each group, and the cost of the pieces of the groups before it.
struct Plan {
  const std::int32_t* begins;  // [groups + 1], cut to the existing rows
  const std::int64_t* costs;   // [groups + 1], rising

  static std::size_t bytes(std::int64_t groups) {
    return aligned(static_cast<std::size_t>(groups + 1) * sizeof(std::int64_t)) +
           aligned(static_cast<std::size_t>(groups + 1) * sizeof(std::int32_t));
  }
  std::int64_t rows_of(std::int64_t group) const { return begins[group + 1] - begins[group]; }
};

// Returns the plan. A piece of a group with m rows costs m + base; without rows `empty`.
Plan make_plan(const GroupedSpec& spec, const std::int32_t* offsets, std::int64_t base,
               std::int64_t empty, std::byte* memory) {
  auto* costs = reinterpret_cast<std::int64_t*>(memory);
  auto* begins = reinterpret_cast<std::int32_t*>(
      memory + aligned(static_cast<std::size_t>(spec.groups + 1) * sizeof(std::int64_t)));
  const auto rows = static_cast<std::int32_t>(spec.rows);
  begins[0] = std::clamp(offsets[0], 0, rows);
  costs[0] = 0;
  for (std::int64_t g = 0; g < spec.groups; ++g) {
    begins[g + 1] = std::clamp(offsets[g + 1], begins[g], rows);
    const std::int64_t m = begins[g + 1] - begins[g];
    costs[g + 1] = costs[g] + (m > 0 ? m + base : empty);
  }
  return {begins, costs};
}

constexpr std::int64_t kMaxGrains = 256;  // of all threads together

// Calls fn(group, piece, thread) for the pieces [0, num_pieces) of every group whose cost is not 0.
// Threads compute runs of about equal cost, and a free thread helps another.
template <typename Fn>
void for_each_piece(const Plan& plan, std::int64_t groups, std::int64_t num_pieces,
                    std::int64_t min_cost_per_thread, const Fn& fn) {
  const std::int64_t total = plan.costs[groups] * num_pieces;
  const std::int64_t grain = std::max(min_cost_per_thread, total / kMaxGrains);
  parallel_shares(total, grain, min_cost_per_thread,
                  [&](std::int64_t begin, std::int64_t end, int thread) {
                    const std::int64_t* last =
                        std::upper_bound(plan.costs, plan.costs + groups + 1, begin / num_pieces);
                    std::int64_t group = std::max<std::int64_t>(0, last - plan.costs - 1);
                    for (; group < groups && plan.costs[group] * num_pieces < end; ++group) {
                      const std::int64_t cost = plan.costs[group + 1] - plan.costs[group];
                      if (cost == 0) continue;
                      const std::int64_t start = plan.costs[group] * num_pieces;
                      // A piece belongs to the thread in whose range it starts.
                      const std::int64_t first =
                          std::clamp<std::int64_t>(divide_up(begin - start, cost), 0, num_pieces);
                      const std::int64_t past =
                          std::clamp<std::int64_t>(divide_up(end - start, cost), 0, num_pieces);
                      for (std::int64_t piece = first; piece < past; ++piece)
                        fn(group, piece, thread);
                    }
                  });
}

void zero_rows_outside(const Plan& plan, const GroupedSpec& spec, std::int64_t width, void* y) {
  const std::size_t row_bytes = static_cast<std::size_t>(width * size_bytes(spec.dtype));
  const std::int64_t first = plan.begins[0], last = plan.begins[spec.groups];
  const auto zero = [&](std::int64_t begin, std::int64_t end) {
    // An empty y may be null, which memset does not accept.
    if (begin < end)
      std::memset(at(y, begin * width, spec.dtype), 0,
                  static_cast<std::size_t>(end - begin) * row_bytes);
  };
  zero(0, first);
  zero(last, spec.rows);
}

// Reading a row of a matrix takes as long as multiplying it with about this many rows.
constexpr std::int64_t kStreamCost = 8;
// Outputs of a piece: their matrix rows stay in cache while all rows of the group are multiplied.
// With few rows in all, as in decoding, pieces are smaller, so that threads end together.
constexpr std::int64_t kPieceOutputs = 64, kFewPieceOutputs = 16;
// Below this many bytes of weights per thread, waking another thread costs more than it saves.
constexpr std::int64_t kMinBytesPerThread = 64 * 1024;
// Products with FP8 blocks prepare this many rows at most: of 64 tokens with 8 experts each.
constexpr std::int64_t kMaxFp8Rows = 512;
// Rows of stored matrices that are widened together: a part of L2.
constexpr std::int64_t kMaxPanelBytes = 256 * 1024, kMinPanelOutputs = 8;

// Size of a tile; multiples of the rows and columns that are multiplied at once.
constexpr std::int64_t kYRows = 256;
constexpr std::int64_t kDxRows = 256, kDxColumns = 192;
constexpr std::int64_t kDwRows = 128, kDwColumns = 384;

// Returns the bytes of this many rows of a matrix.
std::int64_t bytes_of_outputs(const GroupedSpec& s, std::int64_t outputs) {
  return bytes_of_values(s.stored, s.dtype, outputs * s.inputs);
}

bool is_bf16_or_f32(DType dtype) { return dtype == DType::bf16 || dtype == DType::f32; }

}  // namespace

GroupedLinear::GroupedLinear(const GroupedSpec& spec)
    : spec_(spec),
      max_few_rows_(max_rows_to_stream(spec.dtype, spec.stored)),
      prepared_(spec.inputs),
      num_threads_(num_threads()) {
  LAMINA_ASSERT(is_bf16_or_f32(spec.dtype) && is_bf16_or_f32(spec.bias.value_or(DType::f32)));
  function_ = best_rows_function(spec.dtype).run;
  kernel_ = best_rows_function(spec.dtype).name;
  dots_ = find_stored_dots(spec.stored, spec.dtype);
  if (dots_ && !dots_->integers && spec.rows > kMaxFp8Rows) dots_ = nullptr;
  if (dots_) {
    prepared_ = PreparedRows(spec.inputs, *dots_->form);
    kernel_ = dots_->kernel;
    prepared_bytes_ = aligned(prepared_.bytes(spec.rows));
    if (dots_->integers) return;
  }
  if (spec.dtype == DType::bf16 && has_tiles(matrix_unit()))
    tile_.emplace(spec.dtype, kYRows, kPieceOutputs, spec.inputs);
  if (!spec.stored) return;
  stored_.emplace(*spec.stored, spec.inputs, spec.dtype);
  const std::int64_t row_bytes = std::max<std::int64_t>(1, stored_->bytes_widened(1));
  panel_outputs_ = std::clamp(kMaxPanelBytes / row_bytes, kMinPanelOutputs, kPieceOutputs);
  panel_bytes_ = aligned(static_cast<std::size_t>(stored_->bytes_widened(panel_outputs_)));
}

std::size_t GroupedLinear::workspace_bytes() const {
  return Plan::bytes(spec_.groups) + prepared_bytes_ +
         thread_bytes() * static_cast<std::size_t>(num_threads_);
}

std::size_t GroupedLinear::thread_bytes() const {
  return panel_bytes_ + (tile_ ? tile_->scratch_bytes() : 0);
}

void GroupedLinear::multiply_tiles(const RowsArguments& piece, std::int64_t begin, std::int64_t end,
                                   std::int64_t rows, std::byte* tile_scratch) const {
  TileArguments t = {};
  t.n = end - begin;
  t.k = spec_.inputs;
  t.b = {at(piece.w, begin * spec_.inputs, spec_.dtype), spec_.inputs, 1};
  if (piece.bias) t.bias = at(piece.bias, begin, *spec_.bias);
  t.bf16_bias = piece.bf16_bias;
  t.bf16_out = true;
  t.ldc = spec_.outputs;
  for (std::int64_t row = 0; row < rows; row += kYRows) {
    t.m = std::min(kYRows, rows - row);
    t.a = {at(piece.x, row * spec_.inputs, spec_.dtype), spec_.inputs, 1};
    t.c = at(piece.out, row * spec_.outputs + begin, spec_.dtype);
    tile_->multiply(t, tile_scratch);
  }
}

// Computes outputs [begin, end) of `rows` rows, in blocks of rows. `piece` is for the first row.
void GroupedLinear::multiply(const RowsArguments& piece, std::int64_t begin, std::int64_t end,
                             std::int64_t rows, std::byte* tile_scratch) const {
  if (tile_ && rows > max_few_rows_) return multiply_tiles(piece, begin, end, rows, tile_scratch);
  multiply_blocks(function_, piece, begin, end, rows, spec_.inputs * size_bytes(spec_.dtype));
}

// Likewise with a function of rows that are `row_bytes` apart.
void GroupedLinear::multiply_blocks(RowsFunction function, const RowsArguments& piece,
                                    std::int64_t begin, std::int64_t end, std::int64_t rows,
                                    std::int64_t row_bytes) const {
  RowsArguments a = piece;
  const std::int64_t block = divide_up(rows, divide_up(rows, kMaxStreamedRows));
  for (std::int64_t row = 0; row < rows; row += block) {
    a.m = std::min(block, rows - row);
    a.x = static_cast<const std::byte*>(piece.x) + row * row_bytes;
    a.out = at(piece.out, row * spec_.outputs, spec_.dtype);
    function(a, begin, end);
  }
}

// Returns whether a group of `rows` rows is multiplied as prepared rows.
bool GroupedLinear::reads_prepared(std::int64_t rows) const {
  return dots_ && (dots_->integers || rows <= max_few_rows_);
}

void GroupedLinear::run(const void* x, const void* w, const std::int32_t* offsets, const void* bias,
                        void* y, std::byte* workspace) const {
  const GroupedSpec& s = spec_;
  LAMINA_ASSERT(thread_bytes() == 0 || num_threads() <= num_threads_);
  const Plan plan = make_plan(s, offsets, kStreamCost, 0, workspace);
  zero_rows_outside(plan, s, s.outputs, y);
  std::byte* prepared = workspace + Plan::bytes(s.groups);
  if (dots_) prepared_.prepare(x, s.inputs, s.rows, prepared);
  const std::int64_t outputs = s.rows <= kMaxStreamedRows ? kFewPieceOutputs : kPieceOutputs;
  const std::int64_t piece_bytes =
      std::max<std::int64_t>(1, bytes_of_outputs(s, std::min(outputs, s.outputs)));
  const std::int64_t min_cost = divide_up(kMinBytesPerThread, piece_bytes) * (kStreamCost + 1);
  for_each_piece(
      plan, s.groups, divide_up(s.outputs, outputs), min_cost,
      [&](std::int64_t group, std::int64_t piece, int thread) {
        const std::int64_t begin = piece * outputs;
        const std::int64_t end = std::min(begin + outputs, s.outputs);
        const std::int64_t rows = plan.rows_of(group);
        const bool is_prepared = reads_prepared(rows);
        RowsArguments a = {};
        a.k = s.inputs;
        a.ldx = s.inputs;
        a.x = is_prepared ? prepared + prepared_.bytes(plan.begins[group])
                          : static_cast<const void*>(at(x, plan.begins[group] * s.inputs, s.dtype));
        a.w = static_cast<const std::byte*>(w) + group * bytes_of_outputs(s, s.outputs);
        a.ldw = s.inputs;
        a.out = at(y, plan.begins[group] * s.outputs, s.dtype);
        a.ldo = s.outputs;
        if (s.bias) a.bias = at(bias, group * s.outputs, *s.bias);
        a.bf16_in = a.bf16_out = s.dtype == DType::bf16;
        a.bf16_bias = s.bias == DType::bf16;
        if (is_prepared)
          return multiply_blocks(dots_->run, a, begin, end, rows,
                                 static_cast<std::int64_t>(prepared_.bytes(1)));
        std::byte* panel =
            prepared + prepared_bytes_ + thread_bytes() * static_cast<std::size_t>(thread);
        std::byte* tile_scratch = panel + panel_bytes_;
        if (!stored_) return multiply(a, begin, end, rows, tile_scratch);
        for (std::int64_t output = begin; output < end; output += panel_outputs_) {
          const std::int64_t count = std::min(panel_outputs_, end - output);
          stored_->widen(w, group * s.outputs + output, count, panel);
          RowsArguments p = a;
          p.w = panel;
          p.out = at(a.out, output, s.dtype);
          if (s.bias) p.bias = at(a.bias, output, *s.bias);
          multiply(p, 0, count, rows, tile_scratch);
        }
      });
}

// Pieces of stored matrices consist of whole blocks.
GroupedLinearDx::GroupedLinearDx(const GroupedSpec& spec)
    : spec_(spec),
      columns_(spec.stored ? std::lcm(kDxColumns, std::int64_t{spec.stored->num_values})
                           : kDxColumns),
      tile_(spec.dtype, kDxRows, columns_, spec.outputs),
      num_threads_(num_threads()) {
  if (!spec.stored) return;
  stored_.emplace(*spec.stored, spec.inputs, spec.dtype);
  panel_bytes_ = aligned(static_cast<std::size_t>(spec.outputs * std::min(columns_, spec.inputs) *
                                                  size_bytes(spec.dtype)));
}

std::size_t GroupedLinearDx::workspace_bytes() const {
  return Plan::bytes(spec_.groups) + thread_bytes() * static_cast<std::size_t>(num_threads_);
}

void GroupedLinearDx::run(const void* dy, const void* w, const std::int32_t* offsets, void* dx,
                          std::byte* workspace) const {
  const GroupedSpec& s = spec_;
  const Plan plan = make_plan(s, offsets, kStreamCost, 0, workspace);
  zero_rows_outside(plan, s, s.inputs, dx);
  for_each_piece(plan, s.groups, divide_up(s.inputs, columns_), 1,
                 [&](std::int64_t group, std::int64_t piece, int thread) {
                   const std::int64_t begin = piece * columns_, first = plan.begins[group];
                   std::byte* panel = workspace + Plan::bytes(s.groups) +
                                      thread_bytes() * static_cast<std::size_t>(thread);
                   TileArguments t = {};
                   t.n = std::min(columns_, s.inputs - begin);
                   t.k = s.outputs;
                   if (stored_) {
                     stored_->widen(w, group * s.outputs, s.outputs, {begin, begin + t.n}, panel);
                     t.b = {panel, 1, t.n};
                   } else {
                     t.b = {at(w, group * s.outputs * s.inputs + begin, s.dtype), 1, s.inputs};
                   }
                   t.ldc = s.inputs;
                   t.bf16_out = s.dtype == DType::bf16;
                   for (std::int64_t row = 0; row < plan.rows_of(group); row += kDxRows) {
                     t.m = std::min(kDxRows, plan.rows_of(group) - row);
                     t.a = {at(dy, (first + row) * s.outputs, s.dtype), s.outputs, 1};
                     t.c = at(dx, (first + row) * s.inputs + begin, s.dtype);
                     tile_.multiply(t, panel + panel_bytes_);
                   }
                 });
}

GroupedLinearDw::GroupedLinearDw(const GroupedSpec& spec)
    : spec_(spec), tile_(spec.dtype, kDwRows, kDwColumns, spec.rows), num_threads_(num_threads()) {}

std::size_t GroupedLinearDw::workspace_bytes() const {
  return Plan::bytes(spec_.groups) + tile_.scratch_bytes() * static_cast<std::size_t>(num_threads_);
}

void GroupedLinearDw::run(const void* x, const void* dy, const std::int32_t* offsets, float* dw,
                          std::byte* workspace) const {
  const GroupedSpec& s = spec_;
  const Plan plan = make_plan(s, offsets, kStreamCost, kStreamCost, workspace);
  std::byte* scratch = workspace + Plan::bytes(s.groups);
  const std::int64_t across = divide_up(s.inputs, kDwColumns);
  for_each_piece(
      plan, s.groups, across * divide_up(s.outputs, kDwRows), 1,
      [&](std::int64_t group, std::int64_t piece, int thread) {
        const std::int64_t output = piece / across * kDwRows, input = piece % across * kDwColumns;
        TileArguments t = {};
        t.m = std::min(kDwRows, s.outputs - output);
        t.n = std::min(kDwColumns, s.inputs - input);
        t.k = plan.rows_of(group);  // 0: the tile is zeroed
        t.a = {at(dy, plan.begins[group] * s.outputs + output, s.dtype), 1, s.outputs};
        t.b = {at(x, plan.begins[group] * s.inputs + input, s.dtype), 1, s.inputs};
        t.c = dw + (group * s.outputs + output) * s.inputs + input;
        t.ldc = s.inputs;
        tile_.multiply(t, scratch + tile_.scratch_bytes() * static_cast<std::size_t>(thread));
      });
}

}  // namespace lamina::cpu
