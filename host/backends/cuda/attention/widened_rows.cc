#include "backends/cuda/attention/widened_rows.h"

#include "core/round_up.h"

namespace lamina::cuda {

WidenedRows::WidenedRows(Context& context, const Type& type, std::int64_t tokens)
    : tokens_(tokens) {
  if (!type.storage) return;
  widener_.emplace(context, type);
  bytes_ = aligned(static_cast<std::size_t>(type.stored_as(nullptr).bytes()));
}

const void* WidenedRows::run(const KernelArgs& args, const void* from, const void* starts,
                             std::byte* workspace) const {
  if (!widener_) return from;
  widener_->run_written(args, from, starts, tokens_, workspace);
  return workspace;
}

}  // namespace lamina::cuda
