// ngram_hash_step(history, tokens, table, start, count): ngram_hash in a decode call. history[B, n
// - 1] contains the compressed ids before the call, oldest first, and is overwritten with those
// after its count[b] valid tokens; if start[b] = 0, it counts as `pad`.
#include "ops/ngrams.h"
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  const Type& tokens = c.type(1);
  c.require_ndim(1, 2);
  for (int i : {0, 1, 3, 4}) c.require_dtype(i, DType::i32);
  for (int i : {3, 4}) c.require_shape(i, {tokens.dim(0)});
  Type rows = ngram_rows_type(c, tokens, 2);
  c.require_shape(0, {tokens.dim(0), static_cast<std::int64_t>(c.list("multipliers").size()) - 1});
  return {c.type(0), rows};
}

}  // namespace

constinit const OpDef ngram_hash_step_op = {.infer = infer,
                                            .in_place = 1,
                                            .zero_gradient = true,
                                            .decode = &kContinues,
                                            .cost = kNoProducts,
                                            .split = {.rule = "bN, bT, V, b, b -> bN, bTH"}};

}  // namespace lamina::ops
