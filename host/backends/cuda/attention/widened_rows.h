// Keys and values of decode state that are stored in rows, widened for kernels of plain ones.
#pragma once

#include <optional>

#include "backends/cuda/kernel_support.h"
#include "backends/cuda/stored/rows.h"

namespace lamina::cuda {

// One operand [batch, slots, heads, width] of a node. A plain operand is used as it is.
class WidenedRows {
 public:
  // `tokens`: of a call.
  WidenedRows(Context& context, const Type& type, std::int64_t tokens);
  std::size_t workspace_bytes() const { return bytes_; }
  // Widens the slots that are written at `starts` or before, and returns the plain rows: in the
  // workspace, or `from` itself.
  const void* run(const KernelArgs& args, const void* from, const void* starts,
                  std::byte* workspace) const;

 private:
  std::optional<RowWidener> widener_;
  std::int64_t tokens_;
  std::size_t bytes_ = 0;
};

}  // namespace lamina::cuda
