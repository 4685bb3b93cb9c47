#include "ops/decode.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "core/round_up.h"
#include "ops/registry.h"
#include "ops/state_layout.h"
#include "ops/tensor.h"

namespace lamina::ops {
namespace {

const AttrValue& attr(const DecodeCall& call, std::string_view name) {
  for (const auto& [key, value] : call.attrs)
    if (key == name) return value;
  int index = call.op.attr_index(name);
  LAMINA_ASSERT(index >= 0);
  return call.op.attrs[static_cast<std::size_t>(index)].fallback;
}

bool wanted(const HostOperand& operand, const DecodeCall& call) {
  if (operand.decoding != call.context.stateful()) return false;
  if (operand.value == HostInput::segments && !call.context.segments()) return false;
  return operand.when == nullptr || operand.when(call);
}

void check_inputs(const DecodeForm& form, const DecodeCall& call) {
  for (const OperandDims& operand : form.num_dims) {
    const std::string& name = call.op.inputs[static_cast<std::size_t>(operand.input)].name;
    const Tensor x = call.in(operand.input);
    if (!x) call.refuse(fmt::format("input '{}' is missing", name));
    if (x.ndim() != operand.num_dims)
      call.refuse(
          fmt::format("{} must have {} dims, got {}", name, operand.num_dims, to_string(x.type())));
  }
}

void check_state(const DecodeForm& form, const DecodeCall& call) {
  if (!call.state) return;
  if (!form.state) call.refuse("takes no decode state");
  if (call.state->kind != *form.state)
    call.refuse(fmt::format("has a state of kind {}; expected kind {}", to_string(call.state->kind),
                            to_string(*form.state)));
}

void check_state_dims(const DecodeForm& form, const DecodeCall& call) {
  if (!call.state || !form.state_dims) return;
  const std::vector<std::int64_t> dims = form.state_dims(call);
  if (call.state->dims != dims)
    call.refuse(fmt::format("has the state '{}' with dims [{}]; its inputs require [{}]",
                            call.state->name, fmt::join(call.state->dims, ", "),
                            fmt::join(dims, ", ")));
}

// Slots that the host frees according to the declaration must not be read.
void check_reach(const DecodeForm& form, const DecodeCall& call) {
  if (!call.state) return;
  const auto [window, chunk, stride] = form.reach ? form.reach(call) : Reach{};
  const StateDesc& state = *call.state;
  if (state.window > 0 && (window == 0 || window > state.window))
    call.refuse(fmt::format(
        "reads {} of the state '{}', which is declared with window {}; declare it with window {}",
        window == 0 ? "all tokens" : fmt::format("the last {} tokens", window), state.name,
        state.window, window));
  if (state.chunk != chunk)
    call.refuse(
        fmt::format("has chunk {}, but the state '{}' is declared with chunk {}; they must be "
                    "equal (0 = none)",
                    chunk, state.name, state.chunk));
  if (state.stride != stride)
    call.refuse(
        fmt::format("has {} tokens per slot, but the state '{}' is declared with stride {}; they "
                    "must be equal",
                    stride, state.name, state.stride));
}

}  // namespace

std::string_view to_string(StateKind kind) {
  switch (kind) {
#define LAMINA_STATE_KIND(name, number, text, min_dims, max_dims) \
  case StateKind::name:                                           \
    return text;
#include "lamina/state_kinds.def"
  }
  return {};
}

StateLayout layout_of(StateKind kind) {
  switch (kind) {
    case StateKind::kv:
    case StateKind::latent:
    case StateKind::index_keys:
      return StateLayout::slots;
    case StateKind::recurrent:
    case StateKind::conv_window:
    case StateKind::token_history:
    case StateKind::custom:
      return StateLayout::fixed;
  }
  return StateLayout::fixed;
}

std::int64_t DecodeCall::i(std::string_view name) const {
  return std::get<std::int64_t>(attr(*this, name));
}
double DecodeCall::f(std::string_view name) const { return std::get<double>(attr(*this, name)); }

void DecodeCall::refuse(std::string what) const {
  throw PluginError({op.name, std::move(what), {}});
}

std::vector<Tensor> DecodeCall::add_node() const {
  return context.graph().add_node(op, inputs, attrs);
}

std::vector<Tensor> DecodeCall::add_step(OpCode code, int state_input, Tensor tensor) {
  const Op& step = get(code);
  const std::string state_name =
      state_input < 0 ? "" : step.inputs[static_cast<std::size_t>(state_input)].name;
  std::vector<Tensor> operands;
  for (const OpInput& operand : step.inputs) {
    auto same = std::ranges::find(op.inputs, operand.name, &OpInput::name);
    if (operand.name == state_name)
      operands.push_back(tensor);
    else if (operand.name == "start" || operand.name == "count")
      operands.push_back(
          context.host_input(operand.name == "start" ? HostInput::start : HostInput::count));
    else
      operands.push_back(same == op.inputs.end() ? Tensor{} : in(int(same - op.inputs.begin())));
  }
  NamedAttrs known = attrs;
  std::erase_if(known, [&](const auto& a) { return step.attr_index(a.first) < 0; });
  std::vector<Tensor> results = context.graph().add_node(step, operands, known), out;
  for (std::size_t r = 0; r < results.size(); ++r)
    if (step.outputs[r].name == fmt::format("{}_out", state_name))
      context.state_output(tensor, results[r]);
    else
      out.push_back(results[r]);
  return out;
}

std::int64_t DecodeCall::slots() const { return divide_up(context.capacity(), state->stride); }

Tensor DecodeCall::first_slot() {
  Tensor start = context.host_input(HostInput::start);
  return state->stride == 1 ? start : start / number_like(start, state->stride);
}

Type DecodeCall::cache_type(const Type& update, std::int64_t slots) const {
  Shape shape = update.shape;
  shape[1] = slots;
  const Type plain{state_dtype(update.dtype), shape, {}};
  const bool may_change = state->kind == StateKind::kv && state->quantize &&
                          plain.dtype == update.dtype &&
                          (plain.dtype == DType::f32 || plain.dtype == DType::bf16);
  return may_change ? plain.stored_as(context.row_storage(plain.dim(-1))) : plain;
}

WrittenCache DecodeCall::write_cache(std::string_view part, Tensor update, std::int64_t kept) {
  const std::string name = part.empty() ? state->name : fmt::format("{}.{}", state->name, part);
  std::int64_t size = slots();
  if (kept > 0) size = std::min(size, kept + context.max_call_tokens() - 1);
  WrittenCache out{update, {}, kept > 0 && size < context.capacity()};
  for (const auto& [known, written] : context.caches) {
    if (known != name || written.update.id != update.id) continue;
    // An op that reads fewer tokens finds them among all of them.
    if (written.ring ? written.cache.dim(1) != size : written.cache.dim(1) < size)
      refuse(fmt::format("shares the state '{}' with an op that sees another number of tokens",
                         state->name));
    return written;
  }
  Tensor cache = context.state_input(name, state->kind, cache_type(update.type(), size), out.ring);
  const Tensor rows = cast(update, cache.dtype());
  out.cache = cache_write(cache, rows, first_slot(), {.ring = out.ring});
  context.state_output(cache, out.cache);
  context.caches.emplace_back(name, out);
  return out;
}

Tensor DecodeCall::fixed_state(DType dtype, std::span<const std::int64_t> dims) {
  return context.state_input(state->name, state->kind, {dtype, Shape(dims), {}}, false);
}

const DecodeForm* decode_form(const Op& op) {
  const DecodeForm* form = op.def->decode;
  return form && form->none.empty() ? form : nullptr;
}

std::vector<Tensor> trace_op(DecodeCall call) {
  const DecodeForm& form = *decode_form(call.op);
  call.inputs.resize(call.op.inputs.size());
  check_state(form, call);
  const KeysAndValues* donor =
      form.shared_kv && call.context.donor() ? &*call.context.donor() : nullptr;
  if (donor && (call.in(form.shared_kv->k) || call.in(form.shared_kv->v)))
    call.refuse("has k and v in a layer that reads another layer's; omit them");
  if (!donor) {
    check_inputs(form, call);
    check_state_dims(form, call);
    check_reach(form, call);
  }
  const bool remembers = !form.remembers || form.remembers(call);
  const bool decoding = call.context.stateful() && remembers;
  if (decoding && form.state && !call.state && !donor)
    call.refuse("has no decode state, so this block cannot decode");
  for (const HostOperand& operand : form.host)
    if (wanted(operand, call)) call.in(operand.input) = call.context.host_input(operand.value);
  if (decoding && form.step) return form.step(call);
  if (form.shared_kv) {
    if (donor) {
      call.in(form.shared_kv->k) = donor->k;
      call.in(form.shared_kv->v) = donor->v;
    } else {
      call.context.donate({call.in(form.shared_kv->k), call.in(form.shared_kv->v), false,
                           form.reach ? form.reach(call).tokens() : 0});
    }
  }
  return call.add_node();
}

}  // namespace lamina::ops
