// linear_scan_grad(a, b, segments?, dy): with h the result of linear_scan and
//   dh_t = dy_t + a_(t+1) dh_(t+1)
// within a document, da_t = dh_t h_(t-1) and db_t = dh_t. h is recomputed, because y may be
// rounded.
#include "ops/documents.h"
#include "ops/linear_tokens.h"

namespace lamina::ops {
namespace {

namespace in = operand::linear_scan_grad;

std::vector<Type> infer(const Call& c) {
  check_linear_scan(c);
  c.require_floating(in::kDy);
  c.require_shape(in::kDy, c.type(in::kB).shape);
  return {c.type(in::kA), c.type(in::kB)};
}

// From the last token to the first: the gradient of the state after the token, then before it.
std::shared_ptr<const Graph> token_body(const Type& state) {
  auto body = std::make_shared<Graph>();
  Tensor later = body->add_input("flow", state);
  Tensor a = body->add_input("a", state), before = body->add_input("before", state);
  Tensor flow = later + body->add_input("dy", state);
  body->add_output("flow", flow * a);
  body->add_output("da", flow * before);
  body->add_output("db", flow);
  return body;
}

std::vector<Tensor> lower(const LowerCall& c) {
  const Type& type = c.type(in::kB);
  const DType wide = sum_dtype(type.dtype);
  const std::int64_t batch = type.dim(0), tokens = type.dim(1), channels = type.dim(2);
  Graph& graph = *c.in(in::kB).graph;
  if (tokens == 0) return {zeros_like(c.in(in::kA)), zeros_like(c.in(in::kB))};
  LinearTokensInputs inputs;
  Tensor a = cast(c.in(in::kA), wide), keep;
  if (c.has(in::kSegments)) {
    inputs.keep = same_document(c.in(in::kSegments), wide);
    keep = reshape(inputs.keep, {batch, tokens, 1});
    a = a * keep;
  }
  Tensor h = linear_tokens(c, inputs).y;
  Tensor before = slice(pad(h, {.dim = 1, .before = 1}), 1, 0, tokens);
  if (keep) before = before * keep;
  auto by_token = [&](Tensor x) { return transpose(x, {1, 0, 2}); };
  const Type state{wide, {batch, channels}, {}};
  auto results =
      scan({constant(graph, state, 0), by_token(a), by_token(before),
            by_token(cast(c.in(in::kDy), wide))},
           {.body = token_body(state), .times = tokens, .num_carries = 1, .reverse = true});
  return {cast(by_token(results[1]), c.type(in::kA).dtype), cast(by_token(results[2]), type.dtype)};
}

}  // namespace

constinit const OpDef linear_scan_grad_op = {.infer = infer,
                                             .lower = lower,
                                             .zero_gradient = true,
                                             .decode = &kTrainingOnly,
                                             .cost = kOfBackwardPass,
                                             .split = {.rule = "bTc, bTc, bT?, bTc -> bTc, bTc"}};

}  // namespace lamina::ops
