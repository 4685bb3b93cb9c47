// The kernels of a family of ops of a backend.
#pragma once

#include <span>
#include <string_view>

#include "runtime/kernel.h"

namespace lamina {

struct OpKernels {
  std::string_view op;
  std::span<const KernelChoice> choices;  // best first
};
using KernelTable = std::span<const OpKernels>;

}  // namespace lamina
