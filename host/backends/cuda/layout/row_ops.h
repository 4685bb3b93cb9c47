// The kernels of ops that move rows by indices, for the table of the family.
#pragma once

#include "runtime/kernel_table.h"

namespace lamina::cuda {

KernelTable row_kernels();

}  // namespace lamina::cuda
