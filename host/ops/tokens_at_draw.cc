// tokens_at_draw(logits, temperature, draws): where a draw from each row of logits[B, V] falls. The
// ids of a row are cut into groups of 256. Tokens have the weights exp((logit - largest) /
// temperature). The group is the first one at whose end the sum of weights exceeds draws[b] times
// the sum of all, or the last one.
#include <limits>

#include "core/round_up.h"
#include "ops/op.h"
#include "ops/token_weights.h"

namespace lamina::ops {
namespace {

constexpr std::int64_t kGroup = 256;

std::vector<Type> infer(const Call& c) {
  require_logits(c);
  const Type& logits = c.type(0);
  const std::int64_t rows = logits.dim(0);
  c.require(logits.dim(1) >= 1, "logits {} have no tokens", to_string(logits));
  c.require_dtype(2, DType::f64);
  c.require_shape(2, {rows});
  const Type of_row{DType::f64, {rows}, {}};
  return {logits.with(Shape{rows, kGroup}),
          {DType::i32, {rows}, {}},
          of_row,
          logits.with(Shape{rows}),
          of_row};
}

std::vector<Tensor> lower(const LowerCall& c) {
  Tensor logits = c.in(0);
  const std::int64_t rows = logits.dim(0), groups = divide_up(logits.dim(1), kGroup);
  Tensor largest = reduce_max(logits, {1}, true);
  if (const std::int64_t missing = groups * kGroup - logits.dim(1); missing > 0) {
    const Type rest = logits.type().with(Shape{rows, missing});
    const double infinity = std::numeric_limits<double>::infinity();
    logits = concat({logits, constant(*logits.graph, rest, -infinity)}, {.dim = 1});
  }
  Tensor weights = token_weights(logits, largest, c.in(1));
  Tensor sums = reduce_sum(reshape(weights, {rows, groups, kGroup}), {2});
  Tensor through = cumsum(sums, {.dim = 1});
  Tensor total = slice(through, 1, groups - 1, 1);
  Tensor target = reshape(c.in(2), {rows, 1}) * total;
  Tensor group = reduce_sum(cast(less_equal(through, target), DType::i32), {1});
  group = minimum(group, number_like(group, groups - 1));
  Tensor before = cumsum(sums, {.dim = 1, .exclusive = true});
  return {select_rows(reshape(logits, {rows, groups, kGroup}), group),
          group * number_like(group, kGroup),
          reshape(select_rows(reshape(before, {rows, groups, 1}), group), {rows}),
          reshape(largest, {rows}), reshape(total, {rows})};
}

}  // namespace

constinit const OpDef tokens_at_draw_op = {.infer = infer,
                                           .lower = lower,
                                           .zero_gradient = true,
                                           .decode = &kEachToken,
                                           .cost = kNoProducts,
                                           .split = {.rule = "bV, (), b -> bG, b, b, b, b"}};

}  // namespace lamina::ops
