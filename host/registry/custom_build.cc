// Custom ops (ext/custom_ops.h) in the build of a block: the plugin's lowering is built
// immediately, on placeholders for the inputs.
#include "registry/block_build.h"

#include "registry/abi_ops.h"
#include "registry/custom_ops.h"
#include "registry/plugin_call.h"

namespace lamina::registry {
namespace {

// Returns every attribute of the row, with defaults for those that were not given.
std::vector<AttrValue> all_attrs(const Op& op, const NamedAttrs& given) {
  std::vector<AttrValue> out;
  for (std::size_t i = 0; i < op.num_plugin_attrs; ++i) {
    out.push_back(op.attrs[i].fallback);
    for (const auto& [name, value] : given)
      if (name == op.attrs[i].name) out.back() = value;
  }
  return out;
}

}  // namespace

void BlockBuild::refuse_in_lowering(std::string_view what) const {
  if (lowering_)
    abi::refuse(
        "{} is not allowed in the lowering of op '{}', which may use only built-in ops and the "
        "op's inputs",
        what, lowering_->op);
}

void BlockBuild::emit_custom(const lamina_emit_t& use) {
  const CustomOps& ops = family_.custom_ops();
  const std::uint32_t number = use.op - LAMINA_CUSTOM_OPS;
  if (number >= ops.size())
    throw abi::ContractError(
        LAMINA_ERROR_UNSUPPORTED,
        fmt::format("custom op {} is requested, but the plugin has {}, numbered from 0 "
                    "({})",
                    number, ops.size(), LAMINA_CUSTOM_OPS_ID));
  const PluginOp& custom = *ops[number];
  const ops::CustomOp& op = custom.op;
  refuse_in_lowering(fmt::format("custom op '{}'", op.name));
  if (use.revision != 0)
    throw abi::ContractError(
        LAMINA_ERROR_UNSUPPORTED,
        fmt::format("op '{}' is requested in revision {}, but custom ops have revision 0", op.name,
                    use.revision));
  if (use.state != 0)
    abi::refuse(
        "op '{}' is given a state, but the lowering of a custom op declares its "
        "states",
        op.name);
  if (use.n_outputs > op.num_outputs || (use.n_outputs > 0 && use.outputs == nullptr))
    abi::refuse(
        "op '{}' has {} outputs, but {} are "
        "requested",
        op.name, op.num_outputs, use.n_outputs);
  const std::vector<Tensor> inputs = op_inputs(op, op.num_inputs, use.inputs);
  const NamedAttrs attrs = abi::attrs(op, use.attrs);
  const std::vector<Tensor> results = build_lowering(custom, inputs, attrs);
  for (std::size_t i = 0; i < use.n_outputs; ++i) use.outputs[i] = hand_out(results[i]);
}

std::vector<Tensor> BlockBuild::build_lowering(const PluginOp& custom,
                                               const std::vector<Tensor>& inputs,
                                               const NamedAttrs& attrs) {
  const ops::CustomOp& op = custom.op;
  Graph& graph = trace_.graph();
  const std::shared_ptr<const Origin> origin = graph.origin();
  const auto first = static_cast<NodeId>(graph.nodes().size());
  const std::vector<Tensor> stand_ins = trace_.begin_custom(inputs);
  lowering_ = Lowering{op.name,         origin ? to_string(*origin) : "",
                       tensors_.size(), states_.size(),
                       scopes_.size(),  regions_.size()};
  std::vector<lamina_tensor_t> handles, outputs(op.num_outputs);
  for (const Tensor& input : stand_ins) handles.push_back(input ? hand_out(input) : 0);
  const std::vector<AttrValue> values = all_attrs(op, attrs);
  const std::vector<lamina_value_t> views = abi::value_views(values);
  lamina_lowering_t use{};
  use.size = sizeof use;
  use.inputs = {handles.data(), static_cast<std::uint32_t>(handles.size()), sizeof handles[0]};
  use.attrs = {views.data(), static_cast<std::uint32_t>(views.size()), sizeof(lamina_value_t)};
  use.outputs = outputs.data();
  use.n_outputs = static_cast<std::uint32_t>(outputs.size());
  lamina_status_t status = LAMINA_OK;
  std::string change;
  try {
    const PluginCall call(family_.plugin(), family_.name(),
                          fmt::format("lowering of op '{}'", op.name));
    status = custom.source.lower(custom.source.user, &handle_, &use);
    change = call.change();
  } catch (const std::bad_alloc&) {
    throw;  // not the plugin's fault
  } catch (const std::exception& thrown) {
    abi::refuse("its lowering threw an exception ({}); exceptions must not leave a plugin",
                thrown.what());
  } catch (...) {
    abi::refuse("its lowering threw an exception; exceptions must not leave a plugin");
  }
  if (!change.empty()) abi::refuse("the lowering of op '{}' {}", op.name, change);
  // A call inside the lowering has failed and has set the message.
  if (failure_) throw abi::ContractError(failure_->status, "");
  if (status != LAMINA_OK)
    throw abi::ContractError(status,
                             fmt::format("the lowering of op '{}' failed with status {} ({}) and "
                                         "no message",
                                         op.name, status, abi::status_name(status)));
  if (scopes_.size() != lowering_->first_scope)
    abi::refuse("the lowering of op '{}' leaves the scope '{}' open; every scope must be closed",
                op.name, scopes_.back());
  std::vector<Tensor> results;
  for (lamina_tensor_t output : outputs)
    results.push_back(tensor(output, fmt::format("output '{}' of the lowering of op '{}'",
                                                 op.outputs[results.size()].name, op.name)));
  graph.set_origin(origin);
  const auto end = static_cast<NodeId>(graph.nodes().size());
  std::vector<Tensor> out = trace_.end_custom(op, attrs, results);
  lowered_.push_back({first, end, lowering_->first_state, states_.size(), op.name});
  lowering_.reset();
  return out;
}

}  // namespace lamina::registry
