#include "ops/tensor.h"

#include "core/error.h"
#include "ops/registry.h"

namespace lamina::ops {
namespace {

Graph& graph_of(std::span<const Tensor> inputs) {
  for (const Tensor& t : inputs)
    if (t) return *t.graph;
  LAMINA_ASSERT(!"an op is given a tensor");
  return *inputs.front().graph;
}

}  // namespace

std::vector<Tensor> call_all(std::string_view op, std::span<const Tensor> inputs,
                             std::span<const std::pair<std::string_view, AttrValue>> attrs) {
  return graph_of(inputs).add_node(get(op), inputs, attrs);
}

std::vector<Tensor> call_all(std::string_view op, std::initializer_list<Tensor> inputs,
                             Attrs attrs) {
  return call_all(op, std::span(inputs.begin(), inputs.size()),
                  std::span(attrs.begin(), attrs.size()));
}

Tensor call(std::string_view op, std::initializer_list<Tensor> inputs, Attrs attrs) {
  return call_all(op, inputs, attrs).front();
}

Tensor scale(Tensor x, double by) { return by == 1 ? x : plain::scale(x, {.by = by}); }
Tensor shift(Tensor x, double by) { return by == 0 ? x : plain::shift(x, {.by = by}); }

Tensor cast(Tensor x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return plain::cast(x, {.dtype = std::string(name(dtype))});
}

std::vector<std::int64_t> to_list(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

Tensor reshape(Tensor x, Shape shape) {
  if (x.shape() == shape) return x;
  return plain::reshape(x, {.shape = to_list(shape)});
}

Tensor transpose(Tensor x, std::vector<std::int64_t> perm) {
  return plain::transpose(x, {.perm = std::move(perm)});
}

Tensor slice(Tensor x, int dim, std::int64_t start, std::int64_t size) {
  return plain::slice(x, {.dim = dim, .start = start, .size = size});
}

Tensor broadcast(Tensor x, Shape shape) {
  if (x.shape() == shape) return x;
  return plain::broadcast(x, {.shape = to_list(shape)});
}

Tensor constant(Graph& graph, Type type, double value) {
  return plain::constant(
      graph,
      {.shape = to_list(type.shape), .dtype = std::string(name(type.dtype)), .value = value});
}

Tensor zeros_like(Tensor x) { return constant(*x.graph, x.type(), 0); }

Tensor number_like(Tensor x, double value) {
  const std::vector<std::int64_t> ones(static_cast<std::size_t>(x.shape().ndim()), 1);
  return constant(*x.graph, {x.dtype(), Shape(std::span(ones)), {}}, value);
}

Tensor reduce_sum(Tensor x, std::vector<std::int64_t> dims, bool keep) {
  return plain::reduce_sum(x, {.dims = std::move(dims), .keep = keep});
}

Tensor reduce_max(Tensor x, std::vector<std::int64_t> dims, bool keep) {
  return plain::reduce_max(x, {.dims = std::move(dims), .keep = keep});
}

Tensor mean_last(Tensor x) {
  return scale(reduce_sum(x, {x.ndim() - 1}, true), 1.0 / static_cast<double>(x.dim(-1)));
}

Tensor sum_to(Tensor x, const Shape& shape) {
  if (x.shape() == shape) return x;
  std::vector<std::int64_t> dims;
  int extra = x.ndim() - shape.ndim();
  for (int i = 0; i < x.ndim(); ++i)
    if (i < extra || (shape[i - extra] == 1 && x.dim(i) != 1)) dims.push_back(i);
  return reshape(reduce_sum(x, std::move(dims)), shape);
}

Tensor matmul(Tensor a, Tensor b, bool transpose_a, bool transpose_b, DType dtype) {
  return plain::matmul(
      a, b, {},
      {.transpose_a = transpose_a, .transpose_b = transpose_b, .dtype = std::string(name(dtype))});
}

Tensor matmul(Tensor a, Tensor b, bool transpose_a, bool transpose_b) {
  return matmul(a, b, transpose_a, transpose_b, a.dtype());
}

Tensor joined(const std::vector<Tensor>& parts) {
  return parts.size() == 1 ? parts.front() : concat(parts, {.dim = 0});
}

Tensor as_rows(Tensor x) {
  std::int64_t last = x.dim(-1);
  std::int64_t rows = 1;
  for (int i = 0; i + 1 < x.ndim(); ++i) rows *= x.dim(i);
  return reshape(x, {rows, last});
}

}  // namespace lamina::ops
