#include "program/bound_program.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "ops/op_code.h"
#include "program/compile.h"

namespace lamina::program {

using decoder::Input;
using decoder::InputRole;
using decoder::Output;
using decoder::OutputRole;

namespace {

// Values that the host sets before a run, or reads after it.
bool is_host_value(Input role) {
  switch (role) {
    case Input::loss_scales:
    case Input::seed:
      return true;
    default:
      return false;
  }
}
bool is_host_value(Output role) {
  switch (role) {
    case Output::losses:
    case Output::named_loss:
    case Output::metric:
    case Output::task_sum:
    case Output::segment_logp:
    case Output::token_losses:
    case Output::update:
    case Output::mtp_counted:
    case Output::mtp_agreed:
      return true;
    default:
      return false;
  }
}

// Only scans read and write memory in pieces (Binding::pieces): another node would take the first
// piece for the whole.
void check_stacked(const Graph& graph, std::span<const InputRole> inputs,
                   std::span<const OutputRole> outputs) {
  const auto is_scan = [](const Node& node) { return node.op->def->facts.loops; };
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
    const bool is_whole = outputs[i].role == Output::record || is_host_value(outputs[i].role);
    if (!outputs[i].stacked || is_whole || !has_several(value)) continue;
    const NodeId made = graph.value(value).node;
    LAMINA_ASSERT(made != kNoNode && is_scan(graph.node(made)));
  }
}

}  // namespace

BoundProgram::BoundProgram(decoder::ModelGraph graph, const Backend& backend,
                           const passes::Observer& observer)
    : input_roles_(std::move(graph.inputs)),
      output_roles_(std::move(graph.outputs)),
      losses_(std::move(graph.losses)),
      updates_(std::move(graph.updates)),
      query_keys_(std::move(graph.query_keys)),
      metrics_(std::move(graph.metrics)) {
  program_ = compile(std::move(graph.graph), backend, observer);
  LAMINA_ASSERT(program_->graph().inputs().size() == input_roles_.size());
  LAMINA_ASSERT(program_->graph().outputs().size() == output_roles_.size());
  check_stacked(program_->graph(), input_roles_, output_roles_);

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
  bind_host_values();
}

void BoundProgram::bind_host_values() {
  const Graph& graph = program_->graph();
  input_values_.assign(inputs_.size(), kNotOwned);
  output_values_.assign(outputs_.size(), kNotOwned);
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (is_host_value(input_roles_[i].role))
      input_values_[i] = values_.add_input(graph.type(graph.inputs()[i].value));
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (is_host_value(output_roles_[i].role))
      output_values_[i] = values_.add_output(graph.type(graph.outputs()[i].value));
  values_.allocate();
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (input_values_[i] != kNotOwned) inputs_[i].whole = values_.input(input_values_[i]);
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    if (output_values_[i] != kNotOwned) outputs_[i].whole = values_.output(output_values_[i]);
}

void BoundProgram::set(Input role, std::span<const std::int64_t> elements) {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (input_roles_[i].role == role) values_.set(input_values_[i], elements);
}

void BoundProgram::set_loss_scales(const LossScales& by_name) {
  std::vector<double> scales;
  for (const decoder::LossTerm& term : losses_) {
    const auto scale = by_name.find(term.name);
    scales.push_back(scale == by_name.end() ? 0 : scale->second);
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (input_roles_[i].role == Input::loss_scales) values_.set(input_values_[i], scales);
}

std::vector<double> BoundProgram::values(std::size_t output) const {
  LAMINA_ASSERT(output_values_[output] != kNotOwned);
  return values_.get(output_values_[output]);
}

std::vector<double> BoundProgram::values(Output role) const {
  const auto at = std::ranges::find(output_roles_, role, &OutputRole::role);
  if (at == output_roles_.end()) return {};
  return values(static_cast<std::size_t>(at - output_roles_.begin()));
}

double BoundProgram::loss(std::string_view name) const {
  const auto term = std::ranges::find(losses_, name, &decoder::LossTerm::name);
  if (term == losses_.end()) return 0;
  return values(Output::losses)[static_cast<std::size_t>(term - losses_.begin())];
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
