// matmul(a, b, acc?; transpose_a, transpose_b, dtype) = a b (+ acc) over the last two dims, any
// equal dims before them; sums in f32 (f64 for f64), rounded once to dtype (default: a's).
#include "ops/op.h"

namespace lamina::ops {
namespace {

DType result_dtype(const Call& c) {
  if (c.s("dtype").empty()) return c.type(0).dtype;
  auto dtype = parse_dtype(c.s("dtype"));
  c.require(dtype && is_floating(*dtype), "dtype must be a floating-point dtype, got '{}'",
            c.s("dtype"));
  return *dtype;
}

std::vector<Type> infer(const Call& c) {
  const Type& a = c.type(0);
  const Type& b = c.type(1);
  c.require_floating(0);
  c.require(a.dtype == b.dtype, "a and b must have the same dtype, got {} and {}", to_string(a),
            to_string(b));
  c.require(a.ndim() >= 2 && a.ndim() == b.ndim(),
            "a and b must have the same number of dims, at least 2, got {} and {}", to_string(a),
            to_string(b));
  Shape shape = a.shape;
  for (int i = 0; i + 2 < a.ndim(); ++i)
    c.require(a.dim(i) == b.dim(i), "dim {} of {} and {} differ", i, to_string(a), to_string(b));
  bool ta = c.i("transpose_a") != 0, tb = c.i("transpose_b") != 0;
  std::int64_t k = a.dim(ta ? -2 : -1);
  c.require(k == b.dim(tb ? -1 : -2), "inner dims differ: {}{} times {}{}", to_string(a),
            ta ? " transposed" : "", to_string(b), tb ? " transposed" : "");
  shape[-2] = a.dim(ta ? -1 : -2);
  shape[-1] = b.dim(tb ? -2 : -1);
  Type out{result_dtype(c), shape, {}};
  if (c.has(2))
    c.require(c.type(2) == out, "acc must be {}, got {}", to_string(out), to_string(c.type(2)));
  return {out};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  Tensor a = c.in(0), b = c.in(1), ct = cast(c.ct(), a.dtype());
  bool ta = c.i("transpose_a") != 0, tb = c.i("transpose_b") != 0;
  Tensor da = ta ? matmul(b, ct, tb, true) : matmul(ct, b, false, !tb);
  Tensor db = tb ? matmul(ct, a, true, ta) : matmul(a, ct, !ta, false);
  return {da, db, c.has(2) ? c.ct() : Tensor{}};
}

double flops(const NodeView& n, const WorkContext&) {
  return 2 * num_elements(n.out_type()) *
         static_cast<double>(n.type(0).dim(n.i("transpose_a") ? -2 : -1));
}

std::string split_rule(const Call& c) {
  return fmt::format("...{}, ...{}, ...mn?! -> ...mn+k", c.i("transpose_a") ? "km" : "mk",
                     c.i("transpose_b") ? "nk" : "kn");
}

}  // namespace

constinit const OpDef matmul_op = {
    .infer = infer,
    .vjp = vjp,
    .decode = &kEachToken,
    .cost = {.flops = flops},
    .split = {.rule_of = split_rule},
    // One matrix: the head, or the weight in the gradient to the input of a linear.
    .takes_stored = [](const Call& c, int input) { return input == 1 && c.type(1).ndim() == 2; },
    .facts = {.product = Product::tensors,
              .params = {{{"a", ParamUse::matrix}, {"b", ParamUse::matrix}}},
              .accumulates = true}};

}  // namespace lamina::ops
