#include "ops/split.h"

#include "core/error.h"

namespace lamina::ops {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> parts_of(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0; at != std::string_view::npos;) {
    const std::size_t end = text.find(separator, at);
    out.push_back(trimmed(text.substr(at, end - at)));
    at = end == std::string_view::npos ? end : end + separator.size();
  }
  return out;
}

// Returns "..." as the digits of `count` dims, the last of them 9; "___" as that many "_".
std::string leading_dims(std::size_t count, bool split) {
  std::string out(count, '_');
  for (std::size_t i = 0; split && i < count; ++i)
    out[i] = static_cast<char>('9' - static_cast<int>(count - 1 - i));
  return out;
}

constexpr std::string_view kAnyDims = "9876543210";

OperandSplit parse_operand(std::string_view text, int ndim) {
  OperandSplit out;
  const std::size_t sums = text.find('+');
  if (sums != std::string_view::npos)
    for (std::string_view letter : parts_of(text.substr(sums + 1), "+"))
      out.summed += letter == "..." ? kAnyDims : letter;
  text = text.substr(0, sums);
  while (!text.empty() && (text.back() == '?' || text.back() == '!')) {
    out.in_one_part = out.in_one_part || text.back() == '!';
    text.remove_suffix(1);
  }
  if (text == "()") text = "";
  std::string dims(text);
  for (std::string_view any : {"...", "___"}) {
    const std::size_t at = dims.find(any);
    if (at == std::string::npos) continue;
    LAMINA_ASSERT(static_cast<std::size_t>(ndim) + 3 >= dims.size());
    dims.replace(at, 3,
                 leading_dims(static_cast<std::size_t>(ndim) + 3 - dims.size(), any[0] == '.'));
    break;
  }
  LAMINA_ASSERT(dims.size() == static_cast<std::size_t>(ndim));
  out.dims = std::move(dims);
  return out;
}

// Returns the same rule for every operand: broadcasting.
std::string elementwise_rule(const NodeView& node) {
  std::string out = "...";
  for (int i = 1; i < node.num_inputs(); ++i) out += ", ...";
  return out + " -> ...";
}

}  // namespace

std::optional<SplitRule> split_rule(const NodeView& node) {
  const OpSplit& split = node.op().def->split;
  if (!split.none.empty()) return {};
  std::string rule(split.rule);
  if (split.rule_of) rule = split.rule_of(node);
  if (rule.empty()) {
    LAMINA_ASSERT(node.op().def->elementwise);
    rule = elementwise_rule(node);
  }
  const std::vector<std::string_view> sides = parts_of(rule, "->");
  LAMINA_ASSERT(sides.size() == 2);
  const std::vector<std::string_view> inputs = parts_of(sides[0], ","),
                                      outputs = parts_of(sides[1], ",");
  LAMINA_ASSERT(static_cast<int>(inputs.size()) >= node.num_inputs());
  LAMINA_ASSERT(static_cast<int>(outputs.size()) >= node.num_outputs());
  SplitRule out;
  for (int i = 0; i < node.num_inputs(); ++i)
    out.inputs.push_back(
        node.has(i) ? parse_operand(inputs[static_cast<std::size_t>(i)], node.type(i).ndim())
                    : OperandSplit{});
  for (int i = 0; i < node.num_outputs(); ++i)
    out.outputs.push_back(
        parse_operand(outputs[static_cast<std::size_t>(i)], node.out_type(i).ndim()));
  return out;
}

}  // namespace lamina::ops
