// sum_rows(ids, dy; rows): the rows of dy[..., D] summed by id, as a list of the ids that occur:
// the gradient of a lookup-only table, without rows that were not looked up. Ids outside the table
// are ignored. The sums are bit-identical to embedding_grad's.
#include <limits>

#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& ids = c.type(0);
  const Type& dy = c.type(1);
  c.require_dtype(0, DType::i32);
  c.require_floating(1);
  c.require(dy.ndim() == ids.ndim() + 1, "dy must be the shape of ids {} and a width, got {}",
            to_string(ids), to_string(dy));
  const std::int64_t rows = c.i("rows");
  c.require(rows >= 0 && rows <= std::numeric_limits<std::int32_t>::max(),
            "rows must be 0 to 2^31 - 1, got {}", rows);
  const std::int64_t slots = std::min(rows, ids.num_elements());
  return {{DType::i32, {slots}, {}}, {sum_dtype(dy.dtype), {slots, dy.dim(-1)}, {}}};
}

}  // namespace

constinit const OpDef sum_rows_op = {.infer = infer,
                                     .zero_gradient = true,
                                     .decode = &kTrainingOnly,
                                     .cost = kNoProducts,
                                     .split = {.rule = "___, ___d -> S, Sd"}};

}  // namespace lamina::ops
