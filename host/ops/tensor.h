// Ops as functions on Tensors: the vocabulary of lower, vjp and the host's own graphs. Most are
// generated (ops/calls.h); here are those whose arguments have a handier form, and combinations.
//
// Operands of one call lie in one graph. Shapes and dtypes are checked by the op's infer, which
// throws; nothing here computes a shape.
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

// Any op by a name that is data, with at least one tensor; the first is for ops with one result.
Tensor call(std::string_view op, std::initializer_list<Tensor> inputs, Attrs attrs = {});
std::vector<Tensor> call_all(std::string_view op, std::span<const Tensor> inputs,
                             std::span<const std::pair<std::string_view, AttrValue>> attrs = {});
std::vector<Tensor> call_all(std::string_view op, std::initializer_list<Tensor> inputs,
                             Attrs attrs = {});

// `x` itself when nothing changes.
Tensor scale(Tensor x, double by);
Tensor shift(Tensor x, double by);
// `x` itself when it has the dtype already.
Tensor cast(Tensor x, DType dtype);
// `x` itself when it has the shape already.
Tensor reshape(Tensor x, Shape shape);
Tensor transpose(Tensor x, std::vector<std::int64_t> perm);
Tensor slice(Tensor x, int dim, std::int64_t start, std::int64_t size);
Tensor broadcast(Tensor x, Shape shape);
Tensor constant(Graph& graph, Type type, double value);
Tensor zeros_like(Tensor x);
// One value of the dtype of `x` and as many dims, each 1: what goes with every element of it.
Tensor number_like(Tensor x, double value);
Tensor number_like(Tensor x, std::integral auto value) {
  return number_like(x, static_cast<double>(value));
}
Tensor reduce_sum(Tensor x, std::vector<std::int64_t> dims, bool keep = false);
Tensor reduce_max(Tensor x, std::vector<std::int64_t> dims, bool keep = false);
// Mean over the last dim, which stays with size 1.
Tensor mean_last(Tensor x);
// Sums a cotangent of a broadcast operand back to the operand's shape.
Tensor sum_to(Tensor x, const Shape& shape);
Tensor matmul(Tensor a, Tensor b, bool transpose_a = false, bool transpose_b = false);
Tensor matmul(Tensor a, Tensor b, bool transpose_a, bool transpose_b, DType dtype);

std::vector<std::int64_t> to_list(const Shape& shape);

// One after the other along the first dim; the part itself when there is one.
Tensor joined(const std::vector<Tensor>& parts);
// All dims but the last multiplied together: [rows, last].
Tensor as_rows(Tensor x);

}  // namespace lamina::ops

namespace lamina {

inline Tensor operator+(Tensor a, Tensor b) { return ops::add(a, b); }
inline Tensor operator-(Tensor a, Tensor b) { return ops::sub(a, b); }
inline Tensor operator*(Tensor a, Tensor b) { return ops::mul(a, b); }
inline Tensor operator/(Tensor a, Tensor b) { return ops::div(a, b); }
inline Tensor operator-(Tensor a) { return ops::neg(a); }

}  // namespace lamina
