#include "program/bound_program.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/float16.h"
#include "ops/op_code.h"
#include "program/compile.h"

namespace lamina::program {

using decoder::Input;
using decoder::InputRole;
using decoder::Output;
using decoder::OutputRole;

namespace {

template <typename T>
void append(std::vector<std::byte>& out, T value) {
  const std::byte* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof(T));
}

std::vector<std::byte> bytes_of(const std::vector<double>& values, DType dtype) {
  std::vector<std::byte> out;
  for (double value : values) {
    switch (dtype) {
      case DType::i32:
        append(out, static_cast<std::int32_t>(value));
        break;
      case DType::f32:
        append(out, static_cast<float>(value));
        break;
      case DType::f64:
        append(out, value);
        break;
      default:
        LAMINA_ASSERT(dtype == DType::bf16);
        append(out, to_bfloat16(static_cast<float>(value)));
    }
  }
  return out;
}

// Only scans read and write memory in pieces (Binding::pieces): another node would take the first
// piece for the whole.
void check_stacked(const Graph& graph, std::span<const InputRole> inputs,
                   std::span<const OutputRole> outputs) {
  const auto is_scan = [](const Node& node) { return node.op->code == OpCode::scan; };
  const auto has_several = [&](ValueId value) { return graph.type(value).dim(0) > 1; };
  std::vector<bool> in_pieces(graph.values().size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].stacked && !inputs[i].members.empty() && has_several(graph.inputs()[i].value))
      in_pieces[graph.inputs()[i].value] = true;
  for (const Node& node : graph.nodes())
    for (const ValueId value : node.inputs)
      LAMINA_ASSERT(value == kNoValue || !in_pieces[value] || is_scan(node));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId value = graph.outputs()[i].value;
    const bool is_whole = outputs[i].role == Output::record;  // bound by bind_output()
    if (!outputs[i].stacked || is_whole || !has_several(value)) continue;
    const NodeId made = graph.value(value).node;
    LAMINA_ASSERT(made != kNoNode && is_scan(graph.node(made)));
  }
}

// The caller binds memory for the f32 elements of the parameter.
void check_updates(const Graph& graph, std::span<const OutputRole> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].role != Output::update) continue;
    const Type& update = graph.type(graph.outputs()[i].value);
    const auto input = static_cast<std::size_t>(outputs[i].input);
    LAMINA_ASSERT(update.dtype == DType::f32);
    LAMINA_ASSERT(update.shape == graph.type(graph.inputs()[input].value).shape);
  }
}

}  // namespace

BoundProgram::BoundProgram(decoder::ModelGraph graph, const Backend& backend,
                           const passes::Observer& observer)
    : input_roles_(std::move(graph.inputs)),
      output_roles_(std::move(graph.outputs)),
      updates_(std::move(graph.updates)),
      query_keys_(std::move(graph.query_keys)),
      metrics_(std::move(graph.metrics)) {
  program_ = compile(std::move(graph.graph), backend, observer);
  LAMINA_ASSERT(program_->graph().inputs().size() == input_roles_.size());
  LAMINA_ASSERT(program_->graph().outputs().size() == output_roles_.size());
  check_stacked(program_->graph(), input_roles_, output_roles_);
  check_updates(program_->graph(), output_roles_);

  inputs_.resize(input_roles_.size());
  outputs_.resize(output_roles_.size());
  input_pieces_.resize(inputs_.size());
  output_pieces_.resize(outputs_.size());
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const InputRole& role = input_roles_[i];
    input_pieces_[i].members = role.members;
    if (role.values.empty()) continue;
    input_pieces_[i].values = bytes_of(role.values, input_type(i).dtype);
    inputs_[i].whole = host_tensor(std::as_const(input_pieces_[i].values).data(), input_type(i));
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const OutputRole& role = output_roles_[i];
    if (role.input >= 0)
      output_pieces_[i].members = input_roles_[static_cast<std::size_t>(role.input)].members;
    if (role.role != Output::hidden) continue;
    for (std::int64_t layer : role.layers)
      output_pieces_[i].members.push_back(static_cast<int>(layer + 1));
  }
}

const Type& BoundProgram::input_type(std::size_t i) const {
  return program_->graph().type(program_->graph().inputs()[i].value);
}

const Type& BoundProgram::output_type(std::size_t i) const {
  return program_->graph().type(program_->graph().outputs()[i].value);
}

TensorRef BoundProgram::host_memory_of(const Type& type, DType given, void* memory) {
  LAMINA_ASSERT(given == type.dtype || given == dtype_of<std::byte>());
  return memory ? host_tensor(memory, type) : TensorRef();
}

ConstTensorRef BoundProgram::host_memory_of(const Type& type, DType given, const void* memory) {
  LAMINA_ASSERT(given == type.dtype || given == dtype_of<std::byte>());
  return memory ? host_tensor(memory, type) : ConstTensorRef();
}

void BoundProgram::bind(Input role, const ConstTensorRef& memory) {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (input_roles_[i].role == role) inputs_[i].whole = memory;
}

void BoundProgram::bind(Output role, const TensorRef& memory) {
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (output_roles_[i].role == role) outputs_[i].whole = memory;
}

bool BoundProgram::has(Input role) const {
  return std::ranges::find(input_roles_, role, &InputRole::role) != input_roles_.end();
}

bool BoundProgram::has(Output role) const {
  return std::ranges::find(output_roles_, role, &OutputRole::role) != output_roles_.end();
}

template <typename AnyBinding, typename Ref, typename Given>
void BoundProgram::place(AnyBinding& binding, Pieces<Ref>& pieces, std::span<const Given> memory,
                         bool stacked) {
  pieces.tensors.clear();
  for (int member : pieces.members)
    pieces.tensors.push_back(memory[static_cast<std::size_t>(member)]);
  // The one layer is the whole value, which any op may read.
  if (stacked && pieces.tensors.size() > 1)
    binding = {{}, pieces.tensors};
  else
    binding = {pieces.tensors.front(), {}};
}

void BoundProgram::bind_parameters(std::span<const ConstTensorRef> by_parameter) {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (input_roles_[i].role == Input::parameter)
      place(inputs_[i], input_pieces_[i], by_parameter, input_roles_[i].stacked);
}

void BoundProgram::bind_gradients(std::span<const TensorRef> by_parameter,
                                  std::span<const TensorRef> ids) {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (input_roles_[i].role == Input::gradient_sum)
      place(inputs_[i], input_pieces_[i], by_parameter, input_roles_[i].stacked);
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const Output role = output_roles_[i].role;
    if (role != Output::gradient && role != Output::gradient_ids) continue;
    place(outputs_[i], output_pieces_[i], role == Output::gradient ? by_parameter : ids,
          output_roles_[i].stacked);
  }
}

void BoundProgram::bind_states(std::span<const TensorRef> by_state) {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (input_roles_[i].role == Input::state) place(inputs_[i], input_pieces_[i], by_state, true);
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (output_roles_[i].role == Output::state)
      place(outputs_[i], output_pieces_[i], by_state, true);
}

void BoundProgram::bind_updates(std::span<const TensorRef> by_parameter) {
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (output_roles_[i].role == Output::update)
      place(outputs_[i], output_pieces_[i], by_parameter, output_roles_[i].stacked);
}

int BoundProgram::parameter_of(std::size_t input, std::int64_t element) const {
  const decoder::InputRole& role = input_roles_[input];
  if (role.role != Input::parameter) return -1;
  const std::size_t member = role.stacked ? static_cast<std::size_t>(element) : 0;
  return member < role.members.size() ? role.members[member] : -1;
}

std::vector<BoundProgram::NamedOutput> BoundProgram::named_outputs() const {
  std::vector<NamedOutput> out;
  const Graph& graph = program_->graph();
  for (std::size_t i = 0; i < output_roles_.size(); ++i)
    if (!output_roles_[i].name.empty())
      out.push_back({output_roles_[i].role, output_roles_[i].name,
                     graph.type(graph.outputs()[i].value), output_roles_[i].layers, i});
  return out;
}

std::size_t BoundProgram::hidden_bytes() const {
  const Graph& graph = program_->graph();
  std::int64_t max_bytes = 0;
  for (std::size_t i = 0; i < output_roles_.size(); ++i) {
    if (output_roles_[i].role != Output::hidden) continue;
    const Type& type = graph.type(graph.outputs()[i].value);
    max_bytes =
        std::max(max_bytes, output_roles_[i].stacked ? type.bytes() / type.dim(0) : type.bytes());
  }
  return static_cast<std::size_t>(max_bytes);
}

void BoundProgram::bind_hidden(std::span<const TensorRef> by_layer) {
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (output_roles_[i].role == Output::hidden)
      place(outputs_[i], output_pieces_[i], by_layer, output_roles_[i].stacked);
}

}  // namespace lamina::program
