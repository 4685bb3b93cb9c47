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

// Products of one A with several matrices. A is quantised once. Each result has the bits of its
// single product.
class IntegerGemmGroup {
 public:
  virtual ~IntegerGemmGroup() = default;
  // As of Gemm.
  virtual std::size_t workspace_bytes() const = 0;
  virtual std::string_view kernel() const = 0;
  // One GemvOperands per matrix; `addend` is not used.
  virtual void run(const void* a, std::span<const GemvOperands> operands,
                   std::byte* workspace) const = 0;
};

// Makes the products of specs that differ in n, bias and the format of B. Null if one of them is
// not a product by tiles of integers.
std::unique_ptr<IntegerGemmGroup> make_integer_gemm_group(std::span<const GemmSpec> specs);

}  // namespace lamina::cpu
