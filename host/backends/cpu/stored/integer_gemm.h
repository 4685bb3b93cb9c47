// Products of many rows with matrices that are stored in blocks of integers.
#pragma once

#include <memory>
#include <span>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemv.h"

namespace lamina::cpu {

// Makes the product of a spec whose defaults are filled in, for the threads of the pool. Null if it
// is not a product of integers (find_integer_dots).
std::unique_ptr<Gemm> make_integer_gemm(const GemmSpec& spec);

// Makes the products of specs that differ in n, bias and the format of B. A is quantised once; each
// result has the bits of its single product; operands have no addend. Null if one of the specs is
// not a product by tiles of integers.
std::unique_ptr<GemvGroup> make_integer_gemm_group(std::span<const GemmSpec> specs);

}  // namespace lamina::cpu
