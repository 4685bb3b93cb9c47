// Functions for the kernels of all backends: verdicts by dtype, operands, and sizes of shapes.
#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.h"
#include "graph/call.h"
#include "graph/type.h"
#include "runtime/kernel.h"

namespace lamina {

inline bool is_fast_dtype(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; }

// Accepts nodes whose floating inputs and outputs are all f32 or bf16.
inline Verdict only_f32_and_bf16(const NodeView& n) {
  for (int i = 0; i < n.num_inputs(); ++i)
    if (n.has(i) && is_floating(n.type(i).dtype) && !is_fast_dtype(n.type(i).dtype))
      return Verdict::no("takes f32 and bf16, got " + to_string(n.type(i)));
  for (int i = 0; i < n.num_outputs(); ++i)
    if (is_floating(n.out_type(i).dtype) && !is_fast_dtype(n.out_type(i).dtype))
      return Verdict::no("gives f32 and bf16, not " + to_string(n.out_type(i)));
  return Verdict::yes();
}

inline Verdict always(const NodeView&) { return Verdict::yes(); }

// For kernels of ops that may have stored operands (OpDef::takes_stored).
inline Verdict reads_plain(const NodeView& n) {
  for (int i = 0; i < n.num_inputs(); ++i)
    if (n.has(i) && n.type(i).storage)
      return Verdict::no("reads plain values, got " + to_string(n.type(i)));
  return Verdict::yes();
}

// Returns the memory of input `i`; null for -1 and for an absent one.
inline const void* input_of(const KernelArgs& args, int i) {
  return i < 0 ? nullptr : args.inputs[static_cast<std::size_t>(i)];
}

// Returns the product of dims [begin, end).
inline std::int64_t product(const Shape& shape, int begin, int end) {
  std::int64_t out = 1;
  for (int i = begin; i < end; ++i) out *= shape[i];
  return out;
}

// Returns the number of rows of a tensor: the product of all dims except the last.
inline std::int64_t num_rows(const Type& type) { return product(type.shape, 0, type.ndim() - 1); }

// Returns the dim that `dim` means: negative numbers count from the end.
inline int counted_dim(std::int64_t dim, int ndim) {
  return static_cast<int>(dim < 0 ? dim + ndim : dim);
}

}  // namespace lamina
