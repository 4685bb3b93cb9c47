#include "backends/cuda/embedding/copy_rows.h"

#include <fmt/format.h>

namespace lamina::cuda {

Function CopyUnit::function(Context& context, std::string_view name) const {
  return cuda::function(context, fmt::format("{}_{}", name, bytes));
}

CopyUnit copy_unit(std::int64_t row_bytes) {
  for (const std::int64_t bytes : {16, 4, 2})
    if (row_bytes % bytes == 0) return {bytes};
  return {1};
}

CopyRows::CopyRows(Context& context, std::int64_t row_bytes, std::int64_t num_rows,
                   std::int64_t count, std::int64_t divide)
    : copy_(copy_unit(row_bytes).function(context, "embedding_copy")),
      params_{.from = {},
              .ids = {},
              .to = {},
              .num_rows = num_rows,
              .count = count,
              .divide = divide,
              .row_units = row_bytes / copy_unit(row_bytes).bytes} {}

void CopyRows::run(const KernelArgs& args, const void* from, const void* ids, void* to) const {
  CopyRowsParams p = params_;
  p.from = address(from);
  p.ids = address(ids);
  p.to = address(to);
  launch(args, copy_, {.blocks = grid_for(p.count * p.row_units, 256), .threads = 256}, p);
}

}  // namespace lamina::cuda
