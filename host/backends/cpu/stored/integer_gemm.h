// Products of many rows with matrices that are stored in blocks of integers.
#pragma once

#include <memory>

#include "backends/cpu/gemm/gemm.h"

namespace lamina::cpu {

// Makes the product of a spec whose defaults are filled in, with a stored B and bf16 in, for the
// threads of the pool. Null if there is no such kernel for the format.
std::unique_ptr<Gemm> make_integer_gemm(const GemmSpec& spec);

}  // namespace lamina::cpu
