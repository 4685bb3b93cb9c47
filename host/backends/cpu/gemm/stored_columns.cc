#include "backends/cpu/gemm/stored_columns.h"

#include <algorithm>

#include "backends/cpu/stored/stored_rows.h"
#include "backends/cpu/threads/threads.h"
#include "core/round_up.h"

namespace lamina::cpu {
namespace {

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

}  // namespace

std::unique_ptr<Gemm> make_stored_columns_gemm(const GemmSpec& spec, std::string* why) {
  const std::int64_t columns = columns_at_once(spec), left = spec.n % columns;
  std::unique_ptr<Gemm> gemm = make_gemm(plain_product(spec, columns), why);
  if (!gemm) return nullptr;
  std::unique_ptr<Gemm> last;
  if (left > 0 && !(last = make_gemm(plain_product(spec, left), why))) return nullptr;
  return std::make_unique<StoredColumnsGemm>(spec, columns, std::move(gemm), std::move(last));
}

}  // namespace lamina::cpu
