#include "train/loop/non_finite.h"

#include <fmt/format.h>

#include <cmath>

#include "core/float16.h"
#include "runtime/host_access.h"

namespace lamina::train {
namespace {

struct Bad {
  std::int64_t first = -1, count = 0;
  double value = 0;
  bool only_masks = true;  // -inf alone
};

template <typename Read>
Bad look(std::int64_t count, const Read& read) {
  Bad out;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(read(i));
    if (std::isfinite(value)) continue;
    const bool is_mask = std::isinf(value) && value < 0;
    if (out.first < 0 || (out.only_masks && !is_mask)) {
      out.first = i;
      out.value = value;
    }
    out.only_masks = out.only_masks && is_mask;
    ++out.count;
  }
  return out;
}

Bad look(Queue& queue, const ConstTensorRef& tensor) {
  const auto elements = [&]<typename T>(T*, auto to_number) {
    return read_tensor<T>(queue, tensor, [&](std::span<const T> values) {
      return look(std::ssize(values),
                  [&](std::int64_t i) { return to_number(values[static_cast<std::size_t>(i)]); });
    });
  };
  const auto same = [](auto value) { return value; };
  const auto wide = [](auto value) { return to_float(value); };
  switch (tensor.type().dtype) {
    case DType::f32:
      return elements(static_cast<float*>(nullptr), same);
    case DType::f64:
      return elements(static_cast<double*>(nullptr), same);
    case DType::bf16:
      return elements(static_cast<bfloat16*>(nullptr), wide);
    case DType::f16:
      return elements(static_cast<float16*>(nullptr), wide);
    default:
      return {};
  }
}

// From finite numbers these ops make -inf only by overflow, never as a mask.
bool is_product(const Op& op) {
  const OpFacts& facts = op.def->facts;
  return facts.is_norm || (facts.product != Product::none && facts.product != Product::loss);
}

}  // namespace

std::optional<BadElement> first_non_finite(std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i])) return BadElement{static_cast<std::int64_t>(i), values[i]};
  return {};
}

std::string bad_element_text(const decoder::Parameter& p, const BadElement& bad) {
  return fmt::format("'{}' is {} at element {} of {}", p.name, without_sign_of_nan(bad.value),
                     bad.element, to_string(p.desc.shape));
}

std::string NonFinite::text() const {
  std::string where = layer >= 0 ? fmt::format(" in layer {}", layer) : "";
  if (!scope.empty()) where += ", " + scope;
  if (!source.empty()) where += ", built at " + source;
  return fmt::format("{}{}: element {} of {} is {}, {} in all are not finite", op, where, element,
                     result, without_sign_of_nan(value), num_bad);
}

NonFiniteFinder::NonFiniteFinder(program::BoundProgram& program,
                                 const decoder::ParameterTable& parameters)
    : program_(program), parameters_(parameters) {
  program_.program().watch(this);
}

NonFiniteFinder::~NonFiniteFinder() { program_.program().watch(nullptr); }

void NonFiniteFinder::enter(const Graph& graph, NodeId scan, std::int64_t element) {
  iterations_.push_back({&graph, scan, element});
}

void NonFiniteFinder::leave() { iterations_.pop_back(); }

void NonFiniteFinder::ran(const Graph& graph, NodeId id, std::span<const TensorRef> results) {
  if (found_) return;
  const Node& node = graph.node(id);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i]) continue;
    const Type& type = results[i].type();
    const Bad bad = look(program_.program().queue(), results[i]);
    const bool may_be_mask = bad.only_masks && !is_product(*node.op);
    if (bad.count == 0 || (may_be_mask && masked_)) continue;
    NonFinite found{.op = node.op->name,
                    .layer = layer_of(node),
                    .result = to_string(type),
                    .element = bad.first,
                    .value = bad.value,
                    .num_bad = bad.count};
    if (node.origin) {
      found.scope = node.origin->scope;
      if (!node.origin->file.empty())
        found.source = fmt::format("{}:{}", node.origin->file, node.origin->line);
    }
    (may_be_mask ? masked_ : found_) = std::move(found);
    if (found_) return;
  }
}

// Returns the parameter that is the value `id` of the graph inside `depth` scans; -1 if it is none.
int NonFiniteFinder::parameter_at(std::size_t depth, ValueId id) const {
  std::int64_t element = 0;
  for (; depth > 0; --depth) {
    const Iteration& iteration = iterations_[depth - 1];
    const Node& scan = iteration.graph->node(iteration.scan);
    const Value& value = scan.body()->value(id);
    if (value.node != kNoNode || value.index >= scan.inputs.size()) return -1;
    element = iteration.element;
    id = scan.inputs[value.index];
  }
  const Value& value = program_.program().graph().value(id);
  return value.node == kNoNode ? program_.parameter_of(value.index, element) : -1;
}

// Returns the layer of a parameter that the node reads, or else of any that its scan runs over; -1
// if there is none.
std::int64_t NonFiniteFinder::layer_of(const Node& node) const {
  const auto layer = [&](std::size_t depth, ValueId value) -> std::int64_t {
    const int parameter = value == kNoValue ? -1 : parameter_at(depth, value);
    return parameter < 0 ? -1 : parameters_[parameter].layer;
  };
  for (ValueId input : node.inputs)
    if (const std::int64_t found = layer(iterations_.size(), input); found >= 0) return found;
  for (std::size_t depth = iterations_.size(); depth > 0; --depth)
    for (const GraphInput& input :
         iterations_[depth - 1].graph->node(iterations_[depth - 1].scan).body()->inputs())
      if (const std::int64_t found = layer(depth, input.value); found >= 0) return found;
  return -1;
}

}  // namespace lamina::train
