// extend_window(window, x, start, count): the latest tokens before a call followed by the call's
// tokens, and the latest ones after it. window[B, K, ...] and x[B, T, ...]: extended[B, K + T,
// ...]. If start[b] = 0, the window counts as zeros; count[b] tokens of x are valid.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& window = c.type(0);
  const Type& x = c.type(1);
  bool fits = window.ndim() == x.ndim() && window.ndim() >= 2 && window.dtype == x.dtype;
  for (int i = 0; fits && i < x.ndim(); ++i) fits = i == 1 || window.dim(i) == x.dim(i);
  c.require(fits, "x {} does not match the window {}", to_string(x), to_string(window));
  for (int i : {2, 3}) {
    c.require_dtype(i, DType::i32);
    c.require_shape(i, {x.dim(0)});
  }
  Type extended = x;
  extended.shape[1] = window.dim(1) + x.dim(1);
  return {window, extended};
}

}  // namespace

constinit const OpDef extend_window_op = {.infer = infer,
                                          .in_place = 1,
                                          .zero_gradient = true,
                                          .decode = &kContinues,
                                          .cost = kNoProducts,
                                          .split = {.rule = "bK..., bT..., b, b -> bK..., bE..."}};

}  // namespace lamina::ops
