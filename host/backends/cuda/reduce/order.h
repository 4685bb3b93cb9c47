// The kernels of cumsum and top_k, which depend on the order of a row.
#pragma once

#include <memory>

#include "runtime/backend.h"
#include "runtime/kernel.h"

namespace lamina::cuda {

Verdict takes_cumsum(const NodeView& n);
std::unique_ptr<Kernel> make_cumsum(const NodeView& n, Context& context);

Verdict takes_top_k(const NodeView& n);
std::unique_ptr<Kernel> make_top_k(const NodeView& n, Context& context);

}  // namespace lamina::cuda
