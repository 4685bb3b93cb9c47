#include "model/same_function.h"

#include <algorithm>

#include "graph/graph.h"
#include "passes/dead_code.h"

namespace lamina::model {
namespace {

bool has_same_parameters(const decoder::Model& a, const decoder::Model& b) {
  return std::ranges::equal(a.parameters().all(), b.parameters().all(),
                            [](const decoder::Parameter& x, const decoder::Parameter& y) {
                              return x.name == y.name && x.desc.shape == y.desc.shape &&
                                     x.desc.dtype == y.desc.dtype;
                            });
}

bool is_same(const decoder::ModelGraph& a, const decoder::ModelGraph& b) {
  // Traces keep what only training reads, such as loads of experts.
  return same_graph(passes::remove_dead_code(a.graph), passes::remove_dead_code(b.graph)) &&
         std::ranges::equal(
             a.inputs, b.inputs, [](const decoder::InputRole& x, const decoder::InputRole& y) {
               return x.role == y.role && x.members == y.members && x.values == y.values;
             });
}

}  // namespace

bool computes_the_same(const decoder::Model& a, const decoder::Model& b) {
  if (!has_same_parameters(a, b) || a.is_autoregressive() != b.is_autoregressive()) return false;
  const decoder::GraphShape rows{.batch = 1, .tokens = 8};
  const decoder::GraphFeatures features{.segments = true, .mtp = a.mtp_depth() > 0};
  if (!is_same(a.forward_graph(rows, features), b.forward_graph(rows, features))) return false;
  if (!a.is_autoregressive()) return true;
  const decoder::GraphShape token{.batch = 1, .tokens = 1};
  const decoder::StateSize state{.capacity = 8, .max_call_tokens = 1};
  return is_same(a.decode_graph(token, state), b.decode_graph(token, state));
}

}  // namespace lamina::model
