// Chooses between weight streaming (few rows), integer products, our own tiles and oneDNN.
#include "backends/cpu/gemm/gemm.h"

#include <algorithm>
#include <array>

#include "backends/cpu/gemm/gemv.h"
#include "backends/cpu/gemm/matrix_unit.h"
#include "backends/cpu/gemm/onednn.h"
#include "backends/cpu/gemm/tiles.h"
#include "backends/cpu/stored/integer_gemm.h"
#include "backends/cpu/stored/stored_rows.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"
#include "core/round_up.h"

namespace lamina::cpu {
namespace {

class StreamedGemm : public Gemm {
 public:
  explicit StreamedGemm(std::unique_ptr<GemvGroup> group) : group_(std::move(group)) {}
  std::size_t workspace_bytes() const override { return group_->workspace_bytes(); }
  void run(const void* a, const void* b, const void* bias, void* c,
           std::byte* workspace) const override {
    const std::array<GemvOperands, 1> operands = {{{b, c, bias, c}}};
    group_->run(a, operands, workspace);
  }
  std::string_view kernel() const override { return group_->kernel(); }

 private:
  std::unique_ptr<GemvGroup> group_;
};

// Widens the whole B before a product that cannot do so panel by panel.
class WidenedGemm : public Gemm {
 public:
  WidenedGemm(const GemmSpec& s, std::unique_ptr<Gemm> gemm)
      : gemm_(std::move(gemm)),
        rows_(*s.b_stored, s.k, s.in),
        num_rows_(s.n),
        widened_bytes_(aligned(static_cast<std::size_t>(rows_.bytes_widened(s.n)))) {}
  std::size_t workspace_bytes() const override { return widened_bytes_ + gemm_->workspace_bytes(); }
  void run(const void* a, const void* b, const void* bias, void* c,
           std::byte* workspace) const override {
    parallel_widen(rows_, b, num_rows_, workspace);
    gemm_->run(a, workspace, bias, c, workspace + widened_bytes_);
  }
  std::string_view kernel() const override { return gemm_->kernel(); }

 private:
  std::unique_ptr<Gemm> gemm_;
  StoredRows rows_;
  std::int64_t num_rows_;
  std::size_t widened_bytes_;
};

// Columns that are widened together: so many that threads have panels to share, so few that they
// stay in a shared cache until they are multiplied.
constexpr std::int64_t kMaxWidenedBytes = std::int64_t{2} << 20, kMinColumns = 192;

std::int64_t columns_at_once(const GemmSpec& s) {
  const std::int64_t column_bytes = std::max<std::int64_t>(1, s.k * size_bytes(s.in));
  // Multiples of kMinColumns leave no panel of tiles half empty.
  const std::int64_t columns =
      std::max(kMinColumns, kMaxWidenedBytes / column_bytes / kMinColumns * kMinColumns);
  return std::min(s.n, round_up(columns, std::int64_t{s.b_stored->num_values}));
}

GemmSpec plain_product(GemmSpec s, std::int64_t columns) {
  s.n = s.ldb = columns;
  s.b_stored = nullptr;
  return s;
}

class StoredColumnsGemm final : public Gemm {
 public:
  StoredColumnsGemm(const GemmSpec& s, std::int64_t columns, std::unique_ptr<Gemm> gemm,
                    std::unique_ptr<Gemm> last)
      : spec_(s),
        columns_(columns),
        gemm_(std::move(gemm)),
        last_(std::move(last)),
        rows_(*s.b_stored, s.n, s.in),
        widened_bytes_(aligned(static_cast<std::size_t>(s.k * columns * size_bytes(s.in)))) {}

  std::size_t workspace_bytes() const override {
    return widened_bytes_ +
           std::max(gemm_->workspace_bytes(), last_ ? last_->workspace_bytes() : 0);
  }
  std::string_view kernel() const override { return gemm_->kernel(); }

  void run(const void* a, const void* b, const void* bias, void* c,
           std::byte* workspace) const override {
    const std::int64_t bias_bytes = spec_.bias ? size_bytes(*spec_.bias) : 0;
    for (std::int64_t column = 0; column < spec_.n; column += columns_) {
      const std::int64_t count = std::min(columns_, spec_.n - column);
      widen(b, column, count, workspace);
      const Gemm& gemm = count == columns_ ? *gemm_ : *last_;
      gemm.run(
          a, workspace, bias ? static_cast<const std::byte*>(bias) + column * bias_bytes : bias,
          static_cast<std::byte*>(c) + column * size_bytes(spec_.out), workspace + widened_bytes_);
    }
  }

 private:
  void widen(const void* b, std::int64_t column, std::int64_t count, std::byte* out) const {
    constexpr std::int64_t kMinValuesPerThread = 32 << 10;
    parallel_ranges(spec_.k, std::max<std::int64_t>(1, kMinValuesPerThread / count),
                    [&](std::int64_t begin, std::int64_t end) {
                      rows_.widen(b, begin, end - begin, {column, column + count},
                                  out + begin * count * size_bytes(spec_.in));
                    });
  }

  GemmSpec spec_;
  std::int64_t columns_;
  std::unique_ptr<Gemm> gemm_, last_;  // last_: of the columns that are left; null: none are
  StoredRows rows_;
  std::size_t widened_bytes_;
};

// Makes the product of a spec with b_stored and without b_transposed, as in the gradient to the
// input of a linear. Some columns of B at a time are widened in all their rows, and multiplied as a
// plain matrix: with the same bits as if the whole B were widened. Returns nullptr, with the reason
// in *why, if no kernel accepts the plain product.
std::unique_ptr<Gemm> make_stored_columns_gemm(const GemmSpec& spec, std::string* why) {
  const std::int64_t columns = columns_at_once(spec), left = spec.n % columns;
  std::unique_ptr<Gemm> gemm = make_gemm(plain_product(spec, columns), why);
  if (!gemm) return nullptr;
  std::unique_ptr<Gemm> last;
  if (left > 0 && !(last = make_gemm(plain_product(spec, left), why))) return nullptr;
  return std::make_unique<StoredColumnsGemm>(spec, columns, std::move(gemm), std::move(last));
}

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
  if (s.b_stored && (s.ldb != b_width || b_width % s.b_stored->num_values != 0))
    return "a stored B must consist of adjacent rows of whole blocks";
  return "";
}

// Streamed columns are added in another order than by a matrix unit.
bool streams(const GemmSpec& s) {
  if (s.a_transposed) return false;
  if (s.b_transposed) return s.m <= max_rows_to_stream(s.in, s.b_stored);
  return s.m <= 4 && (s.in != DType::bf16 || !has_tiles(matrix_unit()));
}

std::unique_ptr<Gemm> make_streamed(const GemmSpec& s, std::string* why) {
  GemvGroupSpec group;
  group.m = s.m;
  group.k = s.k;
  group.in = s.in;
  group.out = s.out;
  group.w_transposed = s.b_transposed;
  group.ldx = s.lda;
  group.matrices = {{.n = s.n, .ldw = s.ldb, .ldo = s.ldc, .bias = s.bias, .stored = s.b_stored}};
  group.add = s.accumulate;
  auto streamed = make_gemv_group(group, why);
  if (streamed == nullptr) return nullptr;
  return std::make_unique<StreamedGemm>(std::move(streamed));
}

// Only on request: our tiles are faster, or give many rows the bits of few (adr/0048).
bool is_for_onednn(const GemmSpec& s) {
  return s.k > 0 && s.in == DType::bf16 && matrix_unit() == MatrixUnit::onednn;
}

}  // namespace

GemmSpec with_defaults(GemmSpec s) {
  if (s.lda == 0) s.lda = s.a_transposed ? s.m : s.k;
  if (s.ldb == 0) s.ldb = s.b_transposed ? s.k : s.n;
  if (s.ldc == 0) s.ldc = s.n;
  return s;
}

std::unique_ptr<Gemm> make_gemm(const GemmSpec& requested, std::string* why) {
  const GemmSpec spec = with_defaults(requested);
  *why = refusal(spec);
  if (!why->empty()) return nullptr;
  if (spec.m == 0 || spec.n == 0) return std::make_unique<EmptyGemm>();
  if (spec.b_stored && !spec.b_transposed) return make_stored_columns_gemm(spec, why);
  if (streams(spec)) return make_streamed(spec, why);
  if (spec.k > 0)
    if (auto gemm = make_integer_gemm(spec)) return gemm;
  if (is_for_onednn(spec))
    if (auto gemm = make_onednn_gemm(spec, why)) {
      if (!spec.b_stored) return gemm;
      return std::make_unique<WidenedGemm>(spec, std::move(gemm));
    }
  why->clear();
  return make_tiled_gemm(spec);
}

}  // namespace lamina::cpu
