// ngram_hash(tokens, table, segments?): rows of Engram's tables for the n-grams that end at each
// token. DeepSeek-AI, Engram, 2026, section 2.2. Tokens before a row, or before the token's
// document if segments are given, are `pad`.
#include "ops/decode.h"
#include "ops/ngrams.h"
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require_ndim(0, 2);
  c.require_dtype(0, DType::i32);
  c.require_dtype(2, DType::i32);
  c.require_shape(2, {c.type(0).dim(0), c.type(0).dim(1)});
  return {ngram_rows_type(c, c.type(0), 1)};
}

// N-grams of a call's tokens extend into earlier tokens.
std::vector<Tensor> decode(DecodeCall& c) {
  const std::int64_t dims[] = {c.in(0).dim(0), c.state->dims[0]};
  return c.add_step(OpCode::ngram_hash_step, operand::ngram_hash_step::kHistory,
                    c.fixed_state(DType::i32, dims));
}

bool by_document(const DecodeCall& c) { return c.i("across") == 0; }

constexpr HostOperand kHost[] = {{.input = 2, .value = HostInput::segments, .when = by_document}};
constexpr DecodeForm kDecode{.state = StateKind::token_history, .step = decode, .host = kHost};

}  // namespace

constinit const OpDef ngram_hash_op = {.infer = infer,
                                       .zero_gradient = true,
                                       .decode = &kDecode,
                                       .cost = kNoProducts,
                                       .split = {.rule = "bT, V, bT? -> bTH"}};

}  // namespace lamina::ops
