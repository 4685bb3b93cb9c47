// first_non_finite(x, squares): the row-major index and the value of the first element of x that is
// not finite, as f64[2]; -1 and 0 if there is none. `squares` is the sum of x^2 in f64, which is
// finite exactly if all elements of an x in f32 are: then x is not read.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require_dtype(0, DType::f32);
  c.require_dtype(1, DType::f64);
  c.require_shape(1, {});
  return {{DType::f64, {2}, {}}};
}

}  // namespace

constinit const OpDef first_non_finite_op = {
    .infer = infer,
    .zero_gradient = true,
    .decode = &kTrainingOnly,
    .cost = kNoProducts,
    .split = {.none = "one part does not show the first bad element of the whole"}};

}  // namespace lamina::ops
