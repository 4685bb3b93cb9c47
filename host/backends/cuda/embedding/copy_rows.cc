#include "backends/cuda/embedding/copy_rows.h"

namespace lamina::cuda {

CopyRows::CopyRows(Context& context, std::int64_t row_bytes, std::int64_t num_rows,
                   std::int64_t count, std::int64_t divide)
    : row_bytes_(row_bytes),
      kernels_(context, "embedding_copy"),
      params_{.from = {},
              .ids = {},
              .to = {},
              .num_rows = num_rows,
              .count = count,
              .divide = divide,
              .row_units = 0} {}

void CopyRows::run(const KernelArgs& args, const void* from, const void* ids, void* to) const {
  CopyRowsParams p = params_;
  p.from = address(from);
  p.ids = address(ids);
  p.to = address(to);
  const std::int64_t unit = UnitKernels::unit_of({row_bytes_}, {p.from, p.to});
  p.row_units = row_bytes_ / unit;
  launch(args, kernels_.of(unit), shape_for_units(p.count * p.row_units), p);
}

}  // namespace lamina::cuda
