// constant_data(; shape, dtype, values): a tensor with the given numbers, rounded to dtype.
#include "ops/op.h"

namespace lamina::ops {
namespace {

// Larger data belongs in a parameter, which is stored once per model.
constexpr std::int64_t kMaxValues = std::int64_t{1} << 16;

std::vector<Type> infer(const Call& c) {
  const auto dtype = parse_dtype(c.s("dtype"));
  c.require(dtype && is_reducible(*dtype),
            "dtype must be a floating-point dtype, i32 or i64, got '{}'", c.s("dtype"));
  const Type out{*dtype, checked_shape(c, "shape"), {}};
  c.require(out.num_elements() <= kMaxValues, "{} has more than {} elements; make it a parameter",
            to_string(out), kMaxValues);
  c.require(c.f_list("values").size() == static_cast<std::size_t>(out.num_elements()),
            "{} requires {} values, got {}", to_string(out), out.num_elements(),
            c.f_list("values").size());
  for (const double value : c.f_list("values")) require_fits(c, "values", value, *dtype);
  return {out};
}

// Differing numbers enumerate something, but not tokens.
void tokens(TokenFlow& flow) { flow.outputs = {extents_of(flow.node.out_type(), Counted::other)}; }

}  // namespace

constinit const OpDef constant_data_op = {
    .infer = infer,
    .zero_gradient = true,
    .decode = &kEachToken,
    .cost = kNoProducts,
    .split = {.none = "its attributes contain the whole shape"},
    .tokens = tokens};

}  // namespace lamina::ops
