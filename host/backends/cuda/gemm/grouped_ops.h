// The kernels of products of rows in groups.
#pragma once

#include <span>

#include "runtime/kernel.h"

namespace lamina::cuda {

std::span<const KernelChoice> grouped_linear_choices();
std::span<const KernelChoice> grouped_linear_dx_choices();
std::span<const KernelChoice> grouped_linear_dw_choices();

}  // namespace lamina::cuda
