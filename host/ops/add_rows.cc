// add_rows(ids, sums, more_ids, more; rows): merges two lists of rows by id, as from sum_rows, in
// the memory of the first, which must have enough slots. An id in both has sums + more.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  for (int i : {0, 2}) {
    c.require_dtype(i, DType::i32);
    c.require(c.type(i).ndim() == 1, "{} must be [slots], got {}", c.input_name(i),
              to_string(c.type(i)));
    c.require_floating(i + 1);
    c.require(c.type(i + 1).ndim() == 2 && c.type(i + 1).dim(0) == c.type(i).dim(0),
              "{} must be [{}, D] to match {}, got {}", c.input_name(i + 1), c.type(i).dim(0),
              c.input_name(i), to_string(c.type(i + 1)));
  }
  c.require(c.type(1).dtype == sum_dtype(c.type(1).dtype), "sums must be f32 or f64, got {}",
            to_string(c.type(1)));
  c.require(c.type(1).dtype == c.type(3).dtype && c.type(1).dim(1) == c.type(3).dim(1),
            "more {} must have the dtype and width of sums {}", to_string(c.type(3)),
            to_string(c.type(1)));
  return {c.type(0), c.type(1)};
}

}  // namespace

constinit const OpDef add_rows_op = {.infer = infer,
                                     .zero_gradient = true,
                                     .decode = &kTrainingOnly,
                                     .cost = kNoProducts,
                                     .split = {.rule = "S, Sd, M, Md -> S, Sd"}};

}  // namespace lamina::ops
