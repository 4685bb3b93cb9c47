// Ops as functions on Tensors, for lower, vjp and the host's graphs. Most are generated
// (ops/calls.h); here are those with more convenient arguments, and combinations.
//
// Operands of one call must be in one graph. The op's infer checks shapes and dtypes and throws;
// nothing here computes a shape.
#pragma once

#include <concepts>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/calls.h"

namespace lamina::ops {

using Attrs = std::initializer_list<std::pair<std::string_view, AttrValue>>;

// Calls an op by a name at run time, with at least one tensor; the first form is for ops with one
// result.
Tensor call(std::string_view op, std::initializer_list<Tensor> inputs, Attrs attrs = {});
std::vector<Tensor> call_all(std::string_view op, std::span<const Tensor> inputs,
                             std::span<const std::pair<std::string_view, AttrValue>> attrs = {});
std::vector<Tensor> call_all(std::string_view op, std::initializer_list<Tensor> inputs,
                             Attrs attrs = {});

// Returns `x` itself if nothing changes.
Tensor scale(Tensor x, double by);
Tensor shift(Tensor x, double by);
// Returns `x` itself if it already has the dtype.
Tensor cast(Tensor x, DType dtype);
// Returns `x` itself if it already has the shape.
Tensor reshape(Tensor x, Shape shape);
Tensor transpose(Tensor x, std::vector<std::int64_t> perm);
Tensor slice(Tensor x, int dim, std::int64_t start, std::int64_t size);
Tensor broadcast(Tensor x, Shape shape);
Tensor constant(Graph& graph, Type type, double value);
Tensor zeros_like(Tensor x);
// Returns one value with the dtype of `x` and as many dims, each of size 1, which broadcasts to it.
Tensor number_like(Tensor x, double value);
Tensor number_like(Tensor x, std::integral auto value) {
  return number_like(x, static_cast<double>(value));
}
Tensor reduce_sum(Tensor x, std::vector<std::int64_t> dims, bool keep = false);
Tensor reduce_max(Tensor x, std::vector<std::int64_t> dims, bool keep = false);
// Mean over the last dim, which is kept with size 1.
Tensor mean_last(Tensor x);
// Sums a cotangent of a broadcast operand back to the operand's shape.
Tensor sum_to(Tensor x, const Shape& shape);
Tensor matmul(Tensor a, Tensor b, bool transpose_a = false, bool transpose_b = false);
Tensor matmul(Tensor a, Tensor b, bool transpose_a, bool transpose_b, DType dtype);

std::vector<std::int64_t> to_list(const Shape& shape);

// Concatenates along the first dim; returns the part itself if there is only one.
Tensor joined(const std::vector<Tensor>& parts);
// Merges all dims but the last: [rows, last].
Tensor as_rows(Tensor x);

}  // namespace lamina::ops

namespace lamina {

inline Tensor operator+(Tensor a, Tensor b) { return ops::add(a, b); }
inline Tensor operator-(Tensor a, Tensor b) { return ops::sub(a, b); }
inline Tensor operator*(Tensor a, Tensor b) { return ops::mul(a, b); }
inline Tensor operator/(Tensor a, Tensor b) { return ops::div(a, b); }
inline Tensor operator-(Tensor a) { return ops::neg(a); }

}  // namespace lamina
