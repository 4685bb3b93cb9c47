#include "ops/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>

#include "lamina/names.h"
#include "ops/decode.h"
#include "ops/registry.h"
#include "ops/split.h"

namespace lamina::ops {
namespace {

std::string operands(std::span<const OpInput> operands) {
  std::vector<std::string> out;
  for (const OpInput& operand : operands)
    out.push_back(operand.name + (operand.optional ? "?" : operand.variadic ? "..." : ""));
  return fmt::format("{}", fmt::join(out, ", "));
}

std::string fallback(const OpAttr& attr) {
  if (attr.required) return "required";
  if (auto* i = std::get_if<std::int64_t>(&attr.fallback))
    return attr.is_flag ? (*i ? "true" : "false") : std::to_string(*i);
  if (auto* f = std::get_if<double>(&attr.fallback)) return fmt::format("{}", *f);
  if (auto* s = std::get_if<std::string>(&attr.fallback)) return s->empty() ? "\"\"" : *s;
  return "[]";
}

// Escapes a "|", which would end a cell.
std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string gradient(const OpDef& def) {
  if (def.zero_gradient) return "none";
  if (def.vjp) return "its own";
  return "derived from its lowering";
}

std::string decoding(const Op& op) {
  const DecodeForm* form = decode_form(op);
  if (!form) return std::string(op.def->elementwise ? kEachToken.none : op.def->decode->none);
  std::vector<std::string> parts;
  if (form->state) parts.push_back(fmt::format("state of kind {}", to_string(*form->state)));
  for (const HostOperand& operand : form->host)
    parts.push_back(fmt::format("the host adds `{}`{}",
                                op.inputs[static_cast<std::size_t>(operand.input)].name,
                                operand.decoding ? " while decoding" : ""));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string splitting(const OpSplit& split) {
  if (!split.none.empty()) return fmt::format("none, because {}", split.none);
  if (split.rule_of) return "depends on its attributes";
  return split.rule.empty() ? "every dim, with broadcasting" : fmt::format("`{}`", split.rule);
}

std::string section(const Op& op) {
  std::string out =
      fmt::format("\n### {}\n\n`{}({}) -> {}`, {} {}, revision {}. {}.\n\n", op.name, op.name,
                  operands(std::span(op.inputs).first(op.num_plugin_inputs)), operands(op.outputs),
                  op.id >= LAMINA_DRAFT_OPS ? "draft op" : "op", op.id, op.revision, op.doc);
  const auto attrs = std::span(op.attrs).first(op.num_plugin_attrs);
  if (!attrs.empty()) {
    out += "| attribute | default |\n|---|---|\n";
    for (const OpAttr& attr : attrs)
      out += fmt::format("| `{}` | {} |\n", attr.name, fallback(attr));
    out += "\n";
  }
  return out + fmt::format("Gradient: {}. Decoding: {}. Split: {}.\n", gradient(*op.def),
                           decoding(op), splitting(op.def->split));
}

constexpr std::string_view kHead = R"(# Ops

<!-- Generated: lamina plugin ops --markdown > docs/ops.md -->

The ops of blocks. Every op has one row in `plugin_api/include/lamina/ops.def` (internal ops in
`host/ops/internal.def`) and one file in `host/ops`; this page is generated from both.

Shapes: B batch, T tokens, S keys, D width, N query heads, K key/value heads, H head width, V
vocabulary. `x?` may be absent, `xs...` is any number. Sums are in float32 whatever the dtype (float64
for float64). "Split" says which dims may be split over devices, one letter per dim: small letters
may be, capitals must be whole, `+i` is a sum over the parts of i, `!` an operand that one part has;
`host/ops/split.h`.

## Ops that plugins may emit

A draft op serves one published family so far. It may change or be removed in a minor version of
the contract: a plugin that emits one requires a host of the minor version that it was built with.
)";

}  // namespace

std::string reference_page() {
  std::string out(kHead), own;
  for (const Op& op : all())
    if (op.host_only())
      own += fmt::format("| `{}({}) -> {}` | {} |\n", op.name, operands(op.inputs),
                         operands(op.outputs), cell(op.doc));
    else
      out += section(op);
  return out +
         "\n## Internal ops\n\nCreated by passes, autodiff, the decoder and the optimizer; plugins "
         "cannot emit them.\n\n| op | meaning |\n|---|---|\n" +
         own;
}

}  // namespace lamina::ops
