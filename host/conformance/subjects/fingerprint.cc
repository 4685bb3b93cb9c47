#include "conformance/subjects/fingerprint.h"

#include <bit>
#include <string_view>
#include <type_traits>

#include "core/fnv1a.h"

namespace lamina::conformance {
namespace {

class Hash : public Fnv1a {
 public:
  void text(std::string_view s) {
    number(s.size());
    bytes(s);
  }
};

void add(Hash& hash, const Type& type) {
  hash.number(static_cast<std::uint64_t>(type.dtype));
  hash.number(static_cast<std::uint64_t>(type.ndim()));
  for (int i = 0; i < type.ndim(); ++i) hash.number(static_cast<std::uint64_t>(type.dim(i)));
}

struct AddAttr {
  Hash& hash;
  void operator()(std::int64_t v) const { hash.number(static_cast<std::uint64_t>(v)); }
  void operator()(double v) const { hash.number(std::bit_cast<std::uint64_t>(v)); }
  void operator()(const std::string& v) const { hash.text(v); }
  template <typename T>
  void operator()(const std::vector<T>& v) const {
    hash.number(v.size());
    for (const T& element : v) (*this)(element);
  }
  void operator()(const std::shared_ptr<const Graph>& v) const {
    hash.number(v ? fingerprint(*v) : 0);
  }
};

}  // namespace

std::uint64_t fingerprint(const Graph& graph) {
  Hash hash;
  for (const GraphInput& input : graph.inputs()) {
    hash.text(input.name);
    add(hash, graph.type(input.value));
  }
  for (const Node& node : graph.nodes()) {
    hash.text(node.op->name);
    for (ValueId v : node.inputs) hash.number(v);
    for (const AttrValue& attr : node.attrs) {
      hash.number(attr.index());
      std::visit(AddAttr{hash}, attr);
    }
    for (ValueId v : node.outputs) {
      hash.number(v);
      add(hash, graph.type(v));
      hash.text(graph.value(v).tag);
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    hash.text(output.name);
    hash.number(output.value);
    hash.number(static_cast<std::uint64_t>(output.alias_input));
  }
  return hash.value();
}

namespace {

// Covers the values and rates beside the graph, too.
void add(Hash& hash, const decoder::ModelGraph& model) {
  hash.number(fingerprint(model.graph));
  for (const decoder::InputRole& input : model.inputs)
    for (const double value : input.values) hash.number(std::bit_cast<std::uint64_t>(value));
  for (const decoder::ParameterUpdate& update : model.updates) {
    hash.number(static_cast<std::uint64_t>(update.rule));
    hash.number(std::bit_cast<std::uint64_t>(update.rate));
  }
}

}  // namespace

std::uint64_t fingerprint_of_training(const decoder::Model& model) {
  Hash hash;
  for (const decoder::Parameter& p : model.parameters().all()) {
    hash.text(p.name);
    for (std::int64_t dim : p.desc.shape.dims()) hash.number(static_cast<std::uint64_t>(dim));
    hash.number(static_cast<std::uint64_t>(p.desc.init.kind));
    hash.number(std::bit_cast<std::uint64_t>(p.desc.init.a));
    hash.number(std::bit_cast<std::uint64_t>(p.desc.init.b));
    hash.number(static_cast<std::uint64_t>(p.desc.role));
    hash.number(p.desc.trained);
    hash.number(p.desc.decay ? *p.desc.decay + 1 : 0);
    hash.text(p.desc.group);
  }
  add(hash, model.loss_graph({.batch = 2, .tokens = 5},
                             {.segments = true, .training = true, .aux = true, .mtp = true}));
  const registry::MtpSpec& mtp = model.options().mtp;
  for (const bool flag : {mtp.normed_hidden, mtp.shifted_positions, mtp.final_norm, mtp.chained})
    hash.number(flag);
  for (std::int64_t depth = 0; depth < model.mtp_depth(); ++depth)
    hash.number(std::bit_cast<std::uint64_t>(model.mtp_weight(depth)));
  return hash.value();
}

std::uint64_t fingerprint(const decoder::Model& model) {
  Hash hash;
  hash.number(fingerprint_of_training(model));
  add(hash, model.forward_graph({.batch = 2, .tokens = 5}));
  if (!model.is_autoregressive()) return hash.value();
  add(hash, model.decode_graph({.batch = 2, .tokens = 3}, {.capacity = 11, .max_call_tokens = 3}));
  return hash.value();
}

void for_each_graph(const Graph& graph, const std::function<void(const Graph&)>& use) {
  use(graph);
  for (const Node& node : graph.nodes())
    for (const AttrValue& attr : node.attrs)
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attr); body && *body)
        for_each_graph(**body, use);
}

}  // namespace lamina::conformance
