// Random uses of ops, with operands and attributes that are mostly valid.
#include <algorithm>
#include <string>

#include "core/error.h"
#include "fuzz/random_plugin.h"
#include "graph/call.h"
#include "ops/registry.h"
#include "registry/abi_read.h"

namespace lamina::fuzz {

Caller::Attributes Caller::attributes(const Op& op) {
  Attributes out;
  out.integers.reserve(op.attrs.size());
  out.numbers.reserve(op.attrs.size());
  for (std::size_t i = 0; i < op.attrs.size(); ++i) {
    const OpAttr& attr = op.attrs[i];
    out.values.push_back(attr.fallback);
    if (i >= op.num_plugin_attrs || (!attr.required && bytes_.below(3) == 0)) continue;
    lamina_attr_t given{};
    given.key = static_cast<std::uint32_t>(i + 1);
    lamina_value_t& value = given.value;
    switch (attr.fallback.index()) {
      case 0:
        value.type = LAMINA_KIND_INT;
        value.v.i = attr.is_flag ? static_cast<std::int64_t>(bytes_.below(2)) : integer();
        out.values.back() = std::int64_t{value.v.i};
        break;
      case 1:
        value.type = LAMINA_KIND_FLOAT;
        value.v.f = bytes_.pick(kNumbers);
        out.values.back() = value.v.f;
        break;
      case 2: {
        const std::string_view text = bytes_.pick(kTexts);
        value.type = LAMINA_KIND_STRING;
        value.v.s = registry::abi::str(text);
        out.values.back() = std::string(text);
        break;
      }
      case 3:
        out.integers.push_back(sizes());
        value.type = LAMINA_KIND_INT_LIST;
        value.v.list = span(out.integers.back());
        out.values.back() = out.integers.back();
        break;
      default:
        out.numbers.emplace_back(bytes_.below(4), bytes_.pick(kNumbers));
        value.type = LAMINA_KIND_FLOAT_LIST;
        value.v.list = span(out.numbers.back());
        out.values.back() = out.numbers.back();
        break;
    }
    out.given.push_back(given);
  }
  return out;
}

bool Caller::accepted(const Op& op, const std::vector<int>& operands,
                      const Attributes& attrs) const {
  // The host refuses larger integers before it calls a shape rule.
  constexpr std::int64_t kMost = 2 * kHuge;
  const auto too_large = [](std::int64_t n) { return n > kMost || n < -kMost; };
  for (const AttrValue& value : attrs.values) {
    const auto* one = std::get_if<std::int64_t>(&value);
    const auto* list = std::get_if<std::vector<std::int64_t>>(&value);
    if ((one && too_large(*one)) || (list && std::ranges::any_of(*list, too_large))) return false;
  }
  std::vector<const Type*> types;
  for (const int operand : operands)
    types.push_back(operand < 0 ? nullptr : &types_[static_cast<std::size_t>(operand)]);
  for (std::size_t i = 0; i < types.size(); ++i)
    if (!types[i] && !op.inputs[std::min(i, op.num_plugin_inputs - 1)].optional) return false;
  // Random ops need the host's seed, so their shape rule cannot be called here.
  for (std::size_t i = op.num_plugin_inputs; i < op.inputs.size(); ++i)
    if (!op.inputs[i].optional) return true;
  try {
    op.def->infer(Call(op, types, attrs.values, nullptr));
    return true;
  } catch (const UserError&) {
    return false;
  }
}

void Caller::emit() {
  static const std::vector<const Op*> ops = [] {
    std::vector<const Op*> out;
    for (const Op& op : ops::all())
      if (!op.host_only()) out.push_back(&op);
    return out;
  }();
  const Op& op = *bytes_.pick(ops);
  const bool variadic = !op.inputs.empty() && op.inputs.back().variadic;
  const bool checked = bytes_.below(8) != 0;
  for (int tries = 0; tries < 4; ++tries) {
    std::vector<int> operands;
    const std::size_t count = op.num_plugin_inputs + (variadic ? bytes_.below(3) : 0);
    for (std::size_t i = 0; i < count; ++i) {
      const bool absent = op.inputs[std::min(i, op.inputs.size() - 1)].optional && bytes_.below(2);
      operands.push_back(absent ? -1 : static_cast<int>(bytes_.below(handles_.size())));
    }
    const Attributes attrs = attributes(op);
    if (checked && !accepted(op, operands, attrs)) continue;
    return emit(op, operands, attrs);
  }
}

void Caller::emit(const Op& op, const std::vector<int>& operands, const Attributes& attrs) {
  std::vector<lamina_tensor_t> inputs;
  for (const int operand : operands)
    inputs.push_back(operand < 0 ? 0 : handles_[static_cast<std::size_t>(operand)]);
  const ops::DecodeForm* form = ops::decode_form(op);
  state_ = 0;
  if (form && form->state && bytes_.below(8) != 0)
    state_of(&op, operands, static_cast<std::uint32_t>(*form->state), &attrs);
  if (status_ != LAMINA_OK) return;
  std::vector<lamina_tensor_t> outputs(op.outputs.size());
  lamina_emit_t use{};
  use.size = sizeof use;
  use.op = op.id;
  use.revision = op.revision;
  use.inputs = span(inputs);
  use.attrs = span(attrs.given);
  use.state = state_;
  use.outputs = outputs.data();
  use.n_outputs = static_cast<std::uint32_t>(outputs.size());
  keep(api_.emit(build_, &use, nullptr));
  for (const lamina_tensor_t output : outputs) take(output);
}

std::int64_t Caller::dim(const std::vector<int>& operands, std::size_t input, int dim) const {
  if (input >= operands.size() || operands[input] < 0) return 1;
  const Type& type = types_[static_cast<std::size_t>(operands[input])];
  return dim < type.ndim() ? type.dim(dim) : 1;
}

void Caller::state_of(const Op* op, const std::vector<int>& operands, std::uint32_t kind,
                      const Attributes* attrs) {
  std::vector<std::int64_t> dims;
  lamina_state_desc_t out{};
  const auto attr = [&](std::string_view name) {
    const int at = op->attr_index(name);
    return at < 0 ? 0 : std::get<std::int64_t>(attrs->values[static_cast<std::size_t>(at)]);
  };
  if (op == nullptr) {
    if (kind == 0) kind = static_cast<std::uint32_t>(bytes_.below(9));
    dims = sizes();
    if (kind != LAMINA_STATE_CUSTOM) {
      out.window = integer();
      out.stride = integer();
    }
  } else if (op->name == "compressed_attention") {
    dims = {1, dim(operands, 1, 2)};
    out.window = attr("window");
    out.stride = attr("ratio");
  } else if (op->name == "attention" || op->name == "moba_mask") {
    const std::size_t v = op->name == "attention" ? 2 : 1;
    dims = {dim(operands, 1, 2), dim(operands, 1, 3), dim(operands, v, 3)};
    if (v == 2) out.window = attr("window"), out.chunk = attr("chunk");
  } else if (op->name == "latent_attention") {
    dims = {dim(operands, 1, 2), dim(operands, 2, 2)};
  } else if (op->name == "index_scores") {
    dims = {dim(operands, 1, 2)};
    out.stride = bytes_.pick(kSizes);
  } else if (op->name == "linear_scan") {
    dims = {dim(operands, 1, 2)};
  } else if (op->name == "gated_delta_rule" || op->name == "matrix_scan") {
    dims = {dim(operands, 2, 2), dim(operands, 1, 3), dim(operands, 2, 3)};
  } else if (op->name == "causal_conv1d") {
    dims = {dim(operands, 0, 2),
            (dim(operands, 1, 1) - 1) * std::clamp<std::int64_t>(attr("dilation"), 0, 64)};
  } else if (op->name == "window_pool") {
    dims = {2 * dim(operands, 0, 2),
            (attr("overlap") ? 2 : 1) * std::clamp<std::int64_t>(attr("ratio"), 0, 64) - 1};
    if (dims[1] == 0) return;
  }
  if (op && bytes_.below(16) == 15 && !dims.empty()) dims[bytes_.below(dims.size())] = integer();
  const std::vector<lamina_str_t> axes(dims.size());
  const std::string name = "st" + std::to_string(next_name_++);
  out.size = sizeof out;
  out.kind = kind;
  out.name = registry::abi::str(name);
  out.dims = span(dims);
  out.axes = span(axes);
  if (bytes_.below(8) == 7) out.dtype = static_cast<std::uint32_t>(bytes_.below(9));
  keep(api_.state(build_, &out, nullptr, &state_));
}

}  // namespace lamina::fuzz
