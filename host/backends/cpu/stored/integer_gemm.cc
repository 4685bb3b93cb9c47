#include "backends/cpu/stored/integer_gemm.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "backends/cpu/gemm/matrix_unit.h"
#include "backends/cpu/stored/prepared_rows.h"
#include "backends/cpu/stored/stored_dots.h"
#include "backends/cpu/stored/stored_rows.h"
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

// The kernels of matrix_unit(), or kernels by vectors where the instruction set has none of the
// unit; both have the same bits.
class IntegerKernels {
 public:
  const IntegerSlabs& slabs(const IntegerTileFunctions::Format& format) const {
    return unit_ ? units_.slabs : format.slabs;
  }
  std::string_view name() const { return unit_ ? unit_->name : vectors_.name; }
  IntegerMultiply multiply(const IntegerTileFunctions::Format& format) const {
    return unit_ ? unit_->of(format) : format.multiply;
  }
  // As Format::pack, for multiply().
  void pack(const IntegerTileFunctions::Format& format, const std::byte* w, std::int64_t count,
            std::int64_t k, std::byte* panel) const {
    format.pack(w, count, k, panel);
    if (unit_) units_.change_panel(format, k / kActivationBlock, panel);
  }

 private:
  const IntegerTileFunctions& vectors_ = isa_table<IntegerTileFunctions>();
  const IntegerUnitFunctions& units_ = isa_table<IntegerUnitFunctions>();
  const IntegerUnitFunctions::Unit* unit_ = units_.slabs.rows == 0             ? nullptr
                                            : matrix_unit() == MatrixUnit::amx ? &units_.amx
                                            : matrix_unit() == MatrixUnit::emulated
                                                ? &units_.emulated
                                                : nullptr;
};

// Multiplies A with one or several matrices: packs panels of B, each with one thread, and
// multiplies each with all rows.
class TiledIntegerGemms final : public GemvGroup {
 public:
  using Format = IntegerTileFunctions::Format;

  // One format per spec.
  TiledIntegerGemms(std::span<const GemmSpec> specs, std::span<const Format* const> formats)
      : first_(specs.front()),
        quantised_(first_.k),
        blocks_(first_.k / kActivationBlock),
        rows_(std::min(first_.m, kMaxRows)),
        num_threads_(num_threads()) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const std::int64_t panels = divide_up(specs[i].n, std::int64_t{kTileColumns});
      members_.push_back({i, specs[i], formats[i], panels});
      packed_bytes_ = std::max(
          packed_bytes_,
          aligned(slab_bytes(*formats[i]) * static_cast<std::size_t>(slabs(*formats[i], rows_))));
      panel_bytes_ = std::max(panel_bytes_,
                              aligned(static_cast<std::size_t>(formats[i]->panel_bytes * blocks_)));
    }
    // Members that read the same packed rows are neighbours.
    std::ranges::stable_sort(members_, std::less{}, [&](const Member& m) { return packing(m); });
    quantised_bytes_ = aligned(quantised_.bytes(rows_));
  }

  std::size_t workspace_bytes() const override {
    return quantised_bytes_ + packed_bytes_ + panel_bytes_ * static_cast<std::size_t>(num_threads_);
  }
  std::string_view kernel() const override { return kernels_.name(); }

  void run(const void* a, std::span<const GemvOperands> operands,
           std::byte* workspace) const override {
    LAMINA_ASSERT(num_threads() <= num_threads_ && operands.size() == members_.size());
    for (std::int64_t row = 0; row < first_.m; row += rows_) {
      const std::int64_t rows = std::min(rows_, first_.m - row);
      quantised_.prepare(at(a, row * first_.lda, first_.in), first_.lda, rows, workspace);
      std::span<const Member> left = members_;
      while (!left.empty()) {
        const Member& first = left.front();
        const auto count = static_cast<std::size_t>(std::ranges::count_if(
            left, [&](const Member& m) { return packing(m) == packing(first); }));
        pack_rows(rows, *first.format, workspace);
        multiply(left.first(count), row, rows, operands, workspace);
        left = left.subspan(count);
      }
    }
  }

 private:
  struct Member {
    std::size_t index;  // of its operands
    GemmSpec spec;
    const Format* format;
    std::int64_t panels;
  };

  // Members whose packing is equal read the same packed rows.
  std::pair<std::uintptr_t, int> packing(const Member& m) const {
    return {reinterpret_cast<std::uintptr_t>(kernels_.slabs(*m.format).pack), m.format->offset};
  }
  std::int64_t slabs(const Format& format, std::int64_t rows) const {
    return divide_up(rows, std::int64_t{kernels_.slabs(format).rows});
  }
  std::size_t slab_bytes(const Format& format) const {
    return kernels_.slabs(format).block_bytes * static_cast<std::size_t>(blocks_);
  }

  void pack_rows(std::int64_t rows, const Format& format, std::byte* workspace) const {
    const auto* from = reinterpret_cast<const QuantisedStep*>(workspace);
    std::byte* packed = workspace + quantised_bytes_;
    const IntegerSlabs& kernel = kernels_.slabs(format);
    const std::int64_t slab_rows = kernel.rows;
    parallel_ranges(slabs(format, rows), 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slab = begin; slab < end; ++slab)
        kernel.pack(from + slab * slab_rows * quantised_.steps(),
                    std::min(slab_rows, rows - slab * slab_rows), first_.k, format.offset,
                    packed + static_cast<std::size_t>(slab) * slab_bytes(format));
    });
  }

  // Multiplies the packed rows, which begin at `row` of A.
  void multiply(std::span<const Member> members, std::int64_t row, std::int64_t rows,
                std::span<const GemvOperands> operands, std::byte* workspace) const {
    std::int64_t panels = 0;
    for (const Member& m : members) panels += m.panels;
    parallel_tasks(panels, [&](std::int64_t panel, int thread) {
      const Member* member = members.data();
      for (; panel >= member->panels; ++member) panel -= member->panels;
      multiply_panel(*member, panel, row, rows, operands[member->index], workspace, thread);
    });
  }

  void multiply_panel(const Member& member, std::int64_t panel, std::int64_t row, std::int64_t rows,
                      const GemvOperands& operands, std::byte* workspace, int thread) const {
    const GemmSpec& spec = member.spec;
    const std::int64_t column = panel * kTileColumns;
    TileArguments t = {};
    t.m = rows;
    t.n = std::min<std::int64_t>(kTileColumns, spec.n - column);
    t.k = spec.k;
    t.bias = spec.bias ? at(operands.bias, column, *spec.bias) : nullptr;
    t.c = at(operands.out, row * spec.ldc + column, spec.out);
    t.ldc = spec.ldc;
    t.bf16_out = spec.out == DType::bf16;
    t.bf16_bias = spec.bias == DType::bf16;
    t.accumulate = spec.accumulate;
    std::byte* packed_columns = workspace + quantised_bytes_ + packed_bytes_ +
                                panel_bytes_ * static_cast<std::size_t>(thread);
    const auto* b = static_cast<const std::byte*>(operands.w);
    kernels_.pack(*member.format, b + column * spec.b_stored->bytes_of(spec.k), t.n, t.k,
                  packed_columns);
    const IntegerMultiply product = kernels_.multiply(*member.format);
    product(t, workspace + quantised_bytes_, packed_columns);
  }

  GemmSpec first_;  // for m, k, lda and the type of A
  std::vector<Member> members_;
  IntegerKernels kernels_;
  PreparedRows quantised_;
  std::int64_t blocks_, rows_;
  int num_threads_;
  std::size_t quantised_bytes_ = 0, packed_bytes_ = 0, panel_bytes_ = 0;
};

class TiledIntegerGemm final : public Gemm {
 public:
  TiledIntegerGemm(const GemmSpec& spec, const IntegerTileFunctions::Format* format)
      : gemms_({&spec, 1}, {&format, 1}) {}
  std::size_t workspace_bytes() const override { return gemms_.workspace_bytes(); }
  void run(const void* a, const void* b, const void* bias, void* c,
           std::byte* workspace) const override {
    const GemvOperands operands = {.w = b, .out = c, .bias = bias};
    gemms_.run(a, {&operands, 1}, workspace);
  }
  std::string_view kernel() const override { return gemms_.kernel(); }

 private:
  TiledIntegerGemms gemms_;
};

// Multiplies rows as products of few rows do, kMaxStreamedRows at a time.
class DotsIntegerGemm final : public Gemm {
 public:
  DotsIntegerGemm(const GemmSpec& s, const StoredDotFunctions::Format& dots)
      : spec_(s), dots_(dots), quantised_(s.k, *dots.form), rows_(std::min(s.m, kMaxRows)) {}

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
      quantised_.prepare(at(a, row * spec_.lda, spec_.in), spec_.lda, rows, workspace);
      std::byte* out = at(c, row * spec_.ldc, spec_.out);
      parallel_shares(spec_.n, kOutputs, kOutputs, [&](std::int64_t begin, std::int64_t end) {
        RowsArguments part = whole;
        for (std::int64_t first = 0; first < rows; first += kMaxStreamedRows) {
          part.m = std::min(kMaxStreamedRows, rows - first);
          part.x = workspace + quantised_.bytes(first);
          part.out = at(out, first * spec_.ldc, spec_.out);
          if (spec_.accumulate) part.addend = part.out;
          dots_.run(part, begin, end);
        }
      });
    }
  }

  std::string_view kernel() const override { return dots_.kernel; }

 private:
  static constexpr std::int64_t kOutputs = 16;

  GemmSpec spec_;
  const StoredDotFunctions::Format& dots_;
  PreparedRows quantised_;
  std::int64_t rows_;
};

const StoredDotFunctions::Format* find_integer_dots(const GemmSpec& spec) {
  const auto* dots = find_stored_dots(spec.b_stored, spec.in);
  return dots && dots->integers && !spec.a_transposed ? dots : nullptr;
}

}  // namespace

std::unique_ptr<Gemm> make_integer_gemm(const GemmSpec& spec) {
  const auto* dots = find_integer_dots(spec);
  if (!dots) return nullptr;
  if (const auto* tiles = find_format<IntegerTileFunctions>(*spec.b_stored))
    return std::make_unique<TiledIntegerGemm>(spec, tiles);
  return std::make_unique<DotsIntegerGemm>(spec, *dots);
}

std::unique_ptr<GemvGroup> make_integer_gemm_group(std::span<const GemmSpec> specs) {
  std::vector<const IntegerTileFunctions::Format*> formats;
  for (const GemmSpec& spec : specs) {
    if (!find_integer_dots(spec)) return nullptr;
    formats.push_back(find_format<IntegerTileFunctions>(*spec.b_stored));
    if (!formats.back()) return nullptr;
  }
  if (formats.empty()) return nullptr;
  return std::make_unique<TiledIntegerGemms>(specs, formats);
}

}  // namespace lamina::cpu
