// Products of many rows with matrices that are stored in blocks of integers.
#pragma once

#include <memory>

#include "backends/cpu/gemm/gemm.h"

namespace lamina::cpu {

// Makes the product of a spec whose defaults are filled in, for the threads of the pool. Null if it
// is not a product of integers (find_integer_dots).
std::unique_ptr<Gemm> make_integer_gemm(const GemmSpec& spec);

}  // namespace lamina::cpu
