// The kernels of the CPU backend, one table per family; CMakeLists.txt lists the families. An op
// that is in no table is lowered; constant, iota, fused_map and all elementwise ops share
// elementwise_kernels().
#pragma once

#include <span>

#include "runtime/kernel_table.h"

namespace lamina::cpu {

std::span<const KernelChoice> elementwise_kernels();
// Returns the kernels for all custom ops of plugins.
std::span<const KernelChoice> custom_kernels();

#define LAMINA_CPU_FAMILY(name) KernelTable name##_kernels();
#include "backends/cpu/families.def"
#undef LAMINA_CPU_FAMILY

}  // namespace lamina::cpu
