#include "decoder/trace/form_probe.h"

#include "core/error.h"
#include "decoder/roles/roles.h"

namespace lamina::decoder {

Input role_of(ops::HostInput input) {
  switch (input) {
    case ops::HostInput::positions:
      return Input::positions;
    case ops::HostInput::segments:
      return Input::segments;
    case ops::HostInput::start:
      return Input::start;
    case ops::HostInput::count:
      return Input::count;
  }
  throw PluginError({"host", "an input of an unknown kind", {}});
}

FormProbe::FormProbe(const BlockContext& context, const BlockGraph::Kv* donor) : context_(context) {
  if (!donor) return;
  donor_ = {graph_.add_input("donor k", donor->k), graph_.add_input("donor v", donor->v)};
  const BlockOptions& options = context.phase.options;
  if (options.attention_kind != AttentionKind::declared)
    return;  // then the two layers have different windows
  donor_->ring = donor->ring;
  donor_->window = donor->window;
}

std::vector<Type> FormProbe::types(const Op& op, std::span<const Tensor> inputs,
                                   const registry::NamedAttrs& attrs,
                                   const registry::StateDesc* state,
                                   std::shared_ptr<const Origin> origin) {
  graph_.set_origin(std::move(origin));
  std::vector<Type> out;
  for (const Tensor& result : ops::trace_op({op, stand_ins(inputs), attrs, state, *this}))
    out.push_back(result.type());
  return out;
}

std::vector<Type> FormProbe::types_of_draw(const Op& op, std::span<const Tensor> inputs,
                                           const registry::NamedAttrs& attrs,
                                           std::shared_ptr<const Origin> origin) {
  graph_.set_origin(std::move(origin));
  std::vector<Tensor> operands = stand_ins(inputs);
  operands.push_back(graph_.add_input("seed", host_input_type(Input::seed, context_.phase)));
  return {graph_.add_node(op, operands, attrs).front().type()};
}

Tensor FormProbe::stand_in(Tensor recorded) {
  if (!recorded) return {};
  const auto [at, fresh] = stand_ins_.try_emplace(recorded.id);
  if (fresh) at->second = graph_.add_input("value", recorded.type());
  return at->second;
}

std::vector<Tensor> FormProbe::stand_ins(std::span<const Tensor> recorded) {
  std::vector<Tensor> out;
  for (const Tensor& value : recorded) out.push_back(stand_in(value));
  return out;
}

Tensor FormProbe::host_input(ops::HostInput input) {
  const auto [at, fresh] = host_inputs_.try_emplace(input);
  if (fresh) at->second = graph_.add_input("host", host_input_type(role_of(input), context_.phase));
  return at->second;
}

Tensor FormProbe::state_input(const std::string& name, registry::StateKind, const Type& type,
                              bool) {
  const Type kept = type;  // a copy: `type` may be in a value, and values move when one is added
  if (!states_.insert(name).second)
    throw PluginError({"host", fmt::format("state '{}' is used by two ops", name), {}});
  return graph_.add_input(name, kept);
}

void FormProbe::donate(const ops::KeysAndValues&) {
  if (donates_ && context_.use.gives_kv)
    throw PluginError(
        {"host",
         "another layer reads the keys and values of this one, which has two attentions",
         {}});
  donates_ = true;
}

}  // namespace lamina::decoder
