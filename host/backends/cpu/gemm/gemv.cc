// Chooses the weight-streaming kernel and distributes the outputs of a group over the threads.
#include "backends/cpu/gemm/gemv.h"

#include <algorithm>
#include <numeric>

#include "backends/cpu/gemm/tiles.h"
#include "backends/cpu/stored/prepared_rows.h"
#include "backends/cpu/stored/stored_dots.h"
#include "backends/cpu/stored/stored_rows.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/scratch.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

static_assert(kMaxGemvRows == kMaxStreamedRows);

// Outputs are distributed in cuts of this size: the most rows of W that are read together.
constexpr std::int64_t kCutOutputs = 8;
// Bytes of weights that a thread reads at a time, about two microseconds; more by a matrix unit,
// which is configured each time. Whole blocks of outputs instead if the kernels read several rows
// of W for several rows of x, or W by columns. A unit always reads 16 rows.
constexpr std::int64_t kGrainBytes = 64 * 1024, kUnitGrainBytes = 128 * 1024;
constexpr std::int64_t kBlockOutputs = 64, kColumnOutputs = 1024, kUnitOutputs = 16;
// Below this many bytes of weights per thread, waking another thread costs more than it saves.
constexpr std::int64_t kMinBytesPerThread = 64 * 1024;

// Rows of a stored W that are widened together, if they are: as few as stay in L1 if x has few
// rows, else enough to use the registers for several rows of W. For a matrix unit 16, which it
// multiplies in the time of one.
constexpr std::int64_t kNearPanelBytes = 16 * 1024, kNearPanelRows = 8, kPanelRows = 24;

std::int64_t panel_rows(std::int64_t m, std::int64_t row_bytes, bool by_unit) {
  if (by_unit) return kUnitOutputs;
  if (m > 2) return kPanelRows;
  return std::clamp<std::int64_t>(kNearPanelBytes / std::max<std::int64_t>(1, row_bytes), 1,
                                  kNearPanelRows);
}

const GemvFunctions::Named& choose(DType in, bool w_transposed) {
  return w_transposed ? best_rows_function(in) : isa_table<GemvFunctions>().columns;
}

bool is_bf16_or_f32(DType dtype) { return dtype == DType::bf16 || dtype == DType::f32; }

class StreamedGroup : public GemvGroup {
 public:
  explicit StreamedGroup(const GemvGroupSpec& spec)
      : spec_(spec), function_(choose(spec.in, spec.w_transposed)) {
    if (spec_.ldx == 0) spec_.ldx = spec_.k;
    std::int64_t cuts = 0, total_bytes = 0;
    for (GemvMatrix& matrix : spec_.matrices) {
      if (matrix.ldw == 0) matrix.ldw = spec_.w_transposed ? spec_.k : matrix.n;
      if (matrix.ldo == 0) matrix.ldo = matrix.n;
      total_bytes += bytes_of_values(matrix.stored, spec_.in, matrix.n * spec_.k);
    }
    for (const GemvMatrix& matrix : spec_.matrices) {
      first_cut_.push_back(cuts);
      cuts += divide_up(matrix.n, kCutOutputs);
      dots_.push_back(find_stored_dots(matrix.stored, spec_.in));
      prepared_at_.push_back(dots_.back() ? place_prepared(*dots_.back()->form) : 0);
      stored_.emplace_back();
      if (matrix.stored && !dots_.back()) stored_.back().emplace(*matrix.stored, spec_.k, spec_.in);
    }
    panel_rows_ = panel_rows(spec_.m, spec_.k * size_bytes(spec_.in), uses_unit());
    if (std::ranges::any_of(stored_, [](const auto& rows) { return rows.has_value(); }))
      panel_bytes_ =
          aligned(static_cast<std::size_t>(panel_rows_ * spec_.k * size_bytes(spec_.in)));
    first_cut_.push_back(cuts);
    const std::int64_t bytes = std::max<std::int64_t>(1, total_bytes);
    const std::int64_t max_threads = std::max<std::int64_t>(1, bytes / kMinBytesPerThread);
    min_cuts_per_thread_ = std::max<std::int64_t>(1, divide_up(cuts, max_threads));
    // These products read prepared rows instead of x.
    const bool reads_x = std::ranges::any_of(dots_, [](const auto* dots) { return !dots; });
    const bool by_unit = reads_x && uses_unit();
    const std::int64_t min_outputs = by_unit               ? kUnitOutputs
                                     : !spec_.w_transposed ? kColumnOutputs
                                     : spec_.m > 1         ? kBlockOutputs
                                                           : kCutOutputs;
    grain_ = std::max(min_outputs / kCutOutputs,
                      (by_unit ? kUnitGrainBytes : kGrainBytes) * cuts / bytes);
    if (function_.packed_bytes && reads_x)
      packed_bytes_ = aligned(function_.packed_bytes(spec_.m, spec_.k));
  }

  std::size_t workspace_bytes() const override {
    return prepared_bytes_ + packed_bytes_ + panel_bytes_ * static_cast<std::size_t>(num_threads_);
  }

  void run(const void* x, std::span<const GemvOperands> operands,
           std::byte* workspace) const override {
    LAMINA_ASSERT(operands.size() == spec_.matrices.size());
    LAMINA_ASSERT(panel_bytes_ == 0 || num_threads() <= num_threads_);
    if (spec_.m == 0) return;
    std::byte* prepared = workspace;
    for (const PreparedRows& rows : prepared_) {
      rows.prepare(x, spec_.ldx, spec_.m, prepared);
      prepared += aligned(rows.bytes(spec_.m));
    }
    std::byte* packed = workspace + prepared_bytes_;
    if (packed_bytes_ > 0) function_.pack(arguments(x, operands, 0), packed);
    std::byte* panels = packed + packed_bytes_;
    parallel_shares(first_cut_.back(), grain_, min_cuts_per_thread_,
                    [&](std::int64_t begin, std::int64_t end, int thread) {
                      run_cuts(x, workspace, operands, begin, end,
                               panels + panel_bytes_ * static_cast<std::size_t>(thread));
                    });
  }

  std::string_view kernel() const override {
    const auto dots = std::ranges::find_if(dots_, [](const auto* each) { return each; });
    return dots != dots_.end() ? (*dots)->kernel : function_.name;
  }

 private:
  // True if plain and widened rows are multiplied by a matrix unit.
  bool uses_unit() const {
    return spec_.w_transposed && spec_.in == DType::bf16 && has_tiles(matrix_unit());
  }

  // Returns the offset in the workspace of the rows of x in a form.
  std::size_t place_prepared(const RowForm& form) {
    std::size_t at = 0;
    for (const PreparedRows& rows : prepared_) {
      if (&rows.form() == &form) return at;
      at += aligned(rows.bytes(spec_.m));
    }
    prepared_.emplace_back(spec_.k, form);
    prepared_bytes_ = at + aligned(prepared_.back().bytes(spec_.m));
    return at;
  }

  void run_cuts(const void* x, const std::byte* workspace, std::span<const GemvOperands> operands,
                std::int64_t begin, std::int64_t end, std::byte* panel) const {
    for (std::size_t i = 0; i + 1 < first_cut_.size(); ++i) {
      const std::int64_t first = std::max(begin, first_cut_[i]) - first_cut_[i];
      const std::int64_t last = std::min(end, first_cut_[i + 1]) - first_cut_[i];
      if (first >= last) continue;
      const std::int64_t row = first * kCutOutputs;
      const std::int64_t past = std::min(last * kCutOutputs, spec_.matrices[i].n);
      if (dots_[i])
        dots_[i]->run(arguments(workspace + prepared_at_[i], operands, i), row, past);
      else if (stored_[i])
        run_stored(with_packed(arguments(x, operands, i), workspace), *stored_[i], row, past,
                   panel);
      else
        function_.run(with_packed(arguments(x, operands, i), workspace), row, past);
    }
  }

  RowsArguments with_packed(RowsArguments a, const std::byte* workspace) const {
    if (packed_bytes_ > 0) a.packed_x = workspace + prepared_bytes_;
    return a;
  }

  // Widens panels of rows of W, each while the one before it is still in a cache.
  void run_stored(const RowsArguments& whole, const StoredRows& stored, std::int64_t begin,
                  std::int64_t end, std::byte* panel) const {
    const auto from = [](const void* data, std::int64_t elements, bool bf16) -> const void* {
      return data ? static_cast<const std::byte*>(data) + elements * (bf16 ? 2 : 4) : nullptr;
    };
    for (std::int64_t row = begin; row < end; row += panel_rows_) {
      const std::int64_t count = std::min(panel_rows_, end - row);
      stored.widen(whole.w, row, count, panel);
      RowsArguments a = whole;
      a.w = panel;
      a.bias = from(a.bias, row, a.bf16_bias);
      a.addend = from(a.addend, row, a.bf16_out);
      a.out = static_cast<std::byte*>(a.out) + row * (a.bf16_out ? 2 : 4);
      function_.run(a, 0, count);
    }
  }

  RowsArguments arguments(const void* x, std::span<const GemvOperands> operands,
                          std::size_t i) const {
    const GemvMatrix& matrix = spec_.matrices[i];
    RowsArguments a = {};
    a.m = spec_.m;
    a.k = spec_.k;
    a.x = x;
    a.ldx = spec_.ldx;
    a.w = operands[i].w;
    a.ldw = matrix.ldw;
    a.out = operands[i].out;
    a.ldo = matrix.ldo;
    a.bias = matrix.bias ? operands[i].bias : nullptr;
    a.bf16_in = spec_.in == DType::bf16;
    a.bf16_out = spec_.out == DType::bf16;
    a.bf16_bias = matrix.bias == DType::bf16;
    if (spec_.add) a.addend = operands[i].addend;
    return a;
  }

  GemvGroupSpec spec_;
  const GemvFunctions::Named& function_;
  std::vector<std::int64_t> first_cut_;  // of each streamed matrix, and the total
  std::int64_t min_cuts_per_thread_ = 1;
  std::int64_t grain_ = 1;  // cuts
  // For each matrix; null: plain, or widened.
  std::vector<const StoredDotFunctions::Format*> dots_;
  std::vector<PreparedRows> prepared_;             // x in each form that a matrix needs
  std::vector<std::size_t> prepared_at_;           // offset in the workspace, for each matrix
  std::size_t prepared_bytes_ = 0;                 // 0: all products read x
  std::vector<std::optional<StoredRows>> stored_;  // of each matrix that is widened
  std::int64_t panel_rows_ = 0;
  std::size_t packed_bytes_ = 0;  // 0: x is read as it is
  std::size_t panel_bytes_ = 0;   // 0: no matrix is widened
  int num_threads_ = num_threads();
};

std::string refusal(const GemvGroupSpec& spec) {
  if (spec.m < 0 || spec.m > kMaxGemvRows)
    return fmt::format("{} rows; weight streaming takes 0 to {}", spec.m, kMaxGemvRows);
  if (spec.k < 0) return fmt::format("k = {}; a dimension cannot be negative", spec.k);
  if (!is_bf16_or_f32(spec.in) || !is_bf16_or_f32(spec.out))
    return fmt::format("{} to {}; products take and give bf16 or f32", name(spec.in),
                       name(spec.out));
  for (const GemvMatrix& matrix : spec.matrices) {
    if (matrix.n < 0) return fmt::format("n = {}; a dimension cannot be negative", matrix.n);
    if (matrix.bias && !is_bf16_or_f32(*matrix.bias))
      return fmt::format("{} bias; it must be bf16 or f32", name(*matrix.bias));
    if (matrix.stored && (!spec.w_transposed || (matrix.ldw != 0 && matrix.ldw != spec.k)))
      return "a stored W must consist of adjacent rows along k";
  }
  return "";
}

}  // namespace

// Measured with AVX-512 bf16 and AVX2; the bounds for matrix units and for the lowest instruction
// set are guesses.
std::int64_t max_rows_to_stream(DType in, const formats::BlockFormat* stored) {
  if (in == DType::bf16 && has_tiles(matrix_unit())) return kMaxGemvRows;
  if (best_isa() >= Isa::avx512) return kMaxGemvRows;
  // With AVX2, tiles of f32 and of integers are at least as fast from 17 rows on.
  return best_isa() == Isa::avx2 && in == DType::bf16 && !find_stored_dots(stored, in) ? 32 : 16;
}

std::unique_ptr<GemvGroup> make_gemv_group(const GemvGroupSpec& spec, std::string* why) {
  *why = refusal(spec);
  if (!why->empty()) return nullptr;
  return std::make_unique<StreamedGroup>(spec);
}

}  // namespace lamina::cpu
