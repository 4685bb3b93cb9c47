// dim_size(x; dim): the size of a dim, i32[].
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  checked_dim(c, c.i("dim"), c.type(0).ndim());
  return {{DType::i32, {}, {}}};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const int dim = checked_dim(c, c.i("dim"), c.type(0).ndim());
  return {constant(*c.in(0).graph, infer(c)[0], static_cast<double>(c.type(0).dim(dim)))};
}

// The number of tokens depends on all of them.
void tokens(TokenFlow& flow) {
  const int dim = checked_dim(flow.node, flow.node.i("dim"), flow.node.type(0).ndim());
  if (has_tokens(flow.in(0)[static_cast<std::size_t>(dim)])) flow.count(0, dim);
  flow.outputs = {Extents{}};
}

}  // namespace

constinit const OpDef dim_size_op = {.infer = infer,
                                     .lower = lower,
                                     .always_lower = true,
                                     .zero_gradient = true,
                                     .decode = &kEachToken,
                                     .cost = kNoProducts,
                                     .split = {.none = "it returns the size of the whole dim"},
                                     .tokens = tokens};

}  // namespace lamina::ops
