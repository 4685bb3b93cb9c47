// window_ends(positions; ratio): the windows of `ratio` tokens of a document that end in each row,
// in order. DeepSeek-AI 2026 (DeepSeek V4), compressed attention.
#include "core/round_up.h"
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require_ndim(0, 2);
  c.require_dtype(0, DType::i32);
  c.require(c.i("ratio") > 0, "ratio must be at least 1, got {}", c.i("ratio"));
  const Type& positions = c.type(0);
  // The maximum number that can end among these tokens, for any position of the first in its
  // window.
  std::int64_t windows = divide_up(positions.dim(1), c.i("ratio"));
  Type out{DType::i32, {positions.dim(0), windows}, {}};
  return {out, out};
}

constexpr DecodeForm kDecode{.none = "works on the tokens of a call"};

}  // namespace

constinit const OpDef window_ends_op = {.infer = infer,
                                        .zero_gradient = true,
                                        .decode = &kDecode,
                                        .cost = kNoProducts,
                                        .split = {.rule = "bT -> bW, bW"}};

}  // namespace lamina::ops
