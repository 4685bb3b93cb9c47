// Rules of the fake cuDNN for each kind of descriptor when it is finalized.
#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cuda/emulation/dnn_objects.h"

namespace lamina::cuda::emulation {

using namespace dnn;

namespace {

using Kind = DnnOperation::Kind;

DnnStatus finish_tensor(DnnDescriptor& d) {
  DnnTensor& t = d.tensor;
  t = {.id = d.get<std::int64_t>(Attribute::tensor_unique_id),
       .type = d.get<DnnType>(Attribute::tensor_data_type),
       .alignment = d.get<std::int64_t>(Attribute::tensor_byte_alignment),
       .is_virtual = d.get<bool>(Attribute::tensor_is_virtual),
       .by_value = d.get<bool>(Attribute::tensor_is_by_value)};
  std::ranges::copy(d.list<std::int64_t>(Attribute::tensor_dimensions), t.dims.begin());
  std::ranges::copy(d.list<std::int64_t>(Attribute::tensor_strides), t.strides.begin());
  if (std::ranges::any_of(t.dims, [](std::int64_t n) { return n < 1; }) ||
      std::ranges::any_of(t.strides, [](std::int64_t n) { return n < 1; }))
    return dnn_bad("a tensor has dims or strides below 1");
  if (t.alignment < bytes_of(t.type) || (t.alignment & (t.alignment - 1)) != 0)
    return dnn_bad("a tensor is aligned to {} bytes", t.alignment);
  if (t.is_virtual && t.by_value) return dnn_bad("a tensor is virtual and a number");
  return DnnStatus::success;
}

// Adds an operand of an operation to its graph and sets its id. Returns null if it is not set.
const DnnTensor* add_operand(DnnDescriptor& d, Attribute attribute, std::int64_t& id) {
  const DnnDescriptor* const found = d.descriptor(attribute);
  if (!found) return nullptr;
  id = found->tensor.id;
  d.graph.tensors.insert_or_assign(id, found->tensor);
  return &found->tensor;
}

DnnStatus finish_matmul(DnnDescriptor& d) {
  DnnOperation& op = d.operation;
  op.kind = Kind::matmul;
  const DnnDims a = add_operand(d, Attribute::operation_matmul_a, op.x)->dims,
                b = add_operand(d, Attribute::operation_matmul_b, op.b)->dims,
                c = add_operand(d, Attribute::operation_matmul_c, op.y)->dims;
  op.pads =
      d.descriptor(Attribute::operation_matmul_descriptor)->has(Attribute::matmul_padding_value);
  if (a[3] != b[2] || c[2] != a[2] || c[3] != b[3])
    return dnn_bad("a product of {} x {} and {} x {} into {} x {}", a[2], a[3], b[2], b[3], c[2],
                   c[3]);
  if (a[0] != c[0] || b[0] != c[0] || a[1] != c[1] || c[1] % b[1] != 0)
    return dnn_bad("the batches of a product do not fit");
  for (const auto& [attribute, id] :
       {std::pair{Attribute::operation_matmul_m_override, &op.m_limit},
        {Attribute::operation_matmul_n_override, &op.n_limit},
        {Attribute::operation_matmul_k_override, &op.k_limit}}) {
    const DnnTensor* const limit = add_operand(d, attribute, *id);
    if (limit && (limit->type != DnnType::i32 || limit->dims != DnnDims{c[0], 1, 1, 1}))
      return dnn_bad("a limit of a product is not i32[{}, 1, 1, 1]", c[0]);
  }
  return DnnStatus::success;
}

bool broadcasts(const DnnDims& from, const DnnDims& to) {
  for (std::size_t i = 0; i < 4; ++i)
    if (from[i] != to[i] && from[i] != 1) return false;
  return true;
}

DnnStatus finish_pointwise(DnnDescriptor& d) {
  DnnOperation& op = d.operation;
  const DnnDescriptor& kind = *d.descriptor(Attribute::operation_pointwise_descriptor);
  op.kind = Kind::pointwise;
  op.mode = kind.get<PointwiseMode>(Attribute::pointwise_mode);
  op.axis = kind.get<std::int64_t>(Attribute::pointwise_axis, -1);
  const DnnTensor* const x = add_operand(d, Attribute::operation_pointwise_x, op.x);
  const DnnTensor* const b = add_operand(d, Attribute::operation_pointwise_b, op.b);
  const DnnTensor* const t = add_operand(d, Attribute::operation_pointwise_t, op.t);
  const DnnTensor* const y = add_operand(d, Attribute::operation_pointwise_y, op.y);
  const bool unary = op.mode == PointwiseMode::exp || op.mode == PointwiseMode::log ||
                     op.mode == PointwiseMode::gen_index;
  if (unary == (b != nullptr)) return dnn_bad("a pointwise operation has a wrong number of inputs");
  if ((op.mode == PointwiseMode::binary_select) != (t != nullptr))
    return dnn_bad("only a selection has a condition");
  if (op.mode == PointwiseMode::gen_index && (op.axis < 0 || op.axis > 3))
    return dnn_bad("indices are along dim {}", op.axis);
  for (const DnnTensor* operand : {x, b, t})
    if (operand && !broadcasts(operand->dims, y->dims))
      return dnn_bad("an input of a pointwise operation does not fit its result");
  return DnnStatus::success;
}

DnnStatus finish_reduction(DnnDescriptor& d) {
  DnnOperation& op = d.operation;
  op.kind = Kind::reduction;
  op.reduction = d.descriptor(Attribute::operation_reduction_descriptor)
                     ->get<ReductionOperator>(Attribute::reduction_operator);
  const DnnDims x = add_operand(d, Attribute::operation_reduction_x, op.x)->dims,
                y = add_operand(d, Attribute::operation_reduction_y, op.y)->dims;
  for (std::size_t i = 0; i < 4; ++i)
    if (x[i] % y[i] != 0) return dnn_bad("a reduction of {} to {} elements", x[i], y[i]);
  return DnnStatus::success;
}

DnnStatus finish_reshape(DnnDescriptor& d) {
  DnnOperation& op = d.operation;
  op.kind = Kind::reshape;
  const DnnTensor& x = *add_operand(d, Attribute::operation_reshape_x, op.x);
  const DnnTensor& y = *add_operand(d, Attribute::operation_reshape_y, op.y);
  if (x.num_elements() != y.num_elements() || x.extent() != y.extent())
    return dnn_bad("a view of {} elements has {}", x.num_elements(), y.num_elements());
  return DnnStatus::success;
}

DnnStatus finish_graph(DnnDescriptor& d) {
  std::map<std::int64_t, int> produced;
  for (const DnnPointer& operation : d.descriptors(Attribute::operation_graph_operations)) {
    if (operation->graph.tensors.empty())
      return dnn_bad("a graph contains something other than operations");
    for (const auto& [id, tensor] : operation->graph.tensors) {
      const auto [known, fresh] = d.graph.tensors.emplace(id, tensor);
      if (!fresh && (known->second.dims != tensor.dims || known->second.strides != tensor.strides))
        return dnn_bad("two tensors have the id {}", id);
    }
    const DnnOperation& op = operation->operation;
    for (const std::int64_t input : {op.x, op.b, op.t, op.m_limit, op.n_limit, op.k_limit})
      if (input != 0 && d.graph.tensors.at(input).is_virtual && produced[input] == 0)
        return dnn_bad("the virtual tensor {} is not computed before it is used", input);
    if (++produced[op.y] > 1) return dnn_bad("the tensor {} is computed twice", op.y);
    if (d.graph.tensors.at(op.y).by_value) return dnn_bad("a number is computed");
    d.graph.operations.push_back(op);
  }
  return DnnStatus::success;
}

bool is_backward(const DnnGraph& graph) {
  return std::ranges::any_of(graph.operations,
                             [](const DnnOperation& op) { return op.kind == Kind::reshape; });
}

// Gradients keep dS of all pairs.
std::int64_t workspace_of(const DnnGraph& graph) {
  if (!is_backward(graph)) return 0;
  std::int64_t most = 0;
  for (const DnnOperation& op : graph.operations)
    if (op.kind == Kind::matmul && graph.tensors.at(op.y).is_virtual)
      most = std::max(most, graph.tensors.at(op.y).num_elements() * 2);
  return most;
}

DnnStatus finish_plan(DnnDescriptor& d) {
  const DnnDescriptor& config = *d.descriptor(Attribute::execution_plan_engine_config);
  if (config.type != DescriptorType::engine_config) return dnn_bad("a plan has no configuration");
  d.graph = config.graph;
  d.fixed_order = config.fixed_order;
  d.workspace_bytes = workspace_of(d.graph);
  ++DnnObjects::instance().plans;
  return DnnStatus::success;
}

DnnStatus finish_pack(DnnDescriptor& d) {
  std::vector<std::int64_t> ids = d.list<std::int64_t>(Attribute::variant_pack_unique_ids);
  if (ids.size() != d.list<void*>(Attribute::variant_pack_data_pointers).size())
    return dnn_bad("a variant pack has {} ids, but another number of pointers", ids.size());
  std::ranges::sort(ids);
  if (std::ranges::adjacent_find(ids) != ids.end()) return dnn_bad("an id occurs twice in a pack");
  return DnnStatus::success;
}

}  // namespace

DnnStatus finish(DnnDescriptor& d) {
  switch (d.type) {
    case DescriptorType::tensor:
      return finish_tensor(d);
    case DescriptorType::operation_matmul:
      return finish_matmul(d);
    case DescriptorType::operation_pointwise:
      return finish_pointwise(d);
    case DescriptorType::operation_reduction:
      return finish_reduction(d);
    case DescriptorType::operation_reshape:
      return finish_reshape(d);
    case DescriptorType::operation_graph:
      return finish_graph(d);
    case DescriptorType::execution_plan:
      return finish_plan(d);
    case DescriptorType::variant_pack:
      return finish_pack(d);
    case DescriptorType::engine:
    case DescriptorType::engine_config:
      return dnn_refuse(DnnStatus::not_supported, "only the fake cuDNN chooses engines");
    default:
      return DnnStatus::success;
  }
}

}  // namespace lamina::cuda::emulation
