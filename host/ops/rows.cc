#include "ops/rows.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

#include "core/error.h"
#include "ops/op_code.h"

namespace lamina::ops {
namespace {

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    std::size_t end = std::min(text.find(' '), text.size());
    if (end) out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

template <typename T>
T parse_number(std::string_view text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  LAMINA_ASSERT(error == std::errc() && end == text.data() + text.size());
  return value;
}

// Removes "@2" from the end of a word and returns 2.
std::uint32_t take_since(std::string_view& word) {
  const std::size_t at = word.find('@');
  if (at == word.npos) return 0;
  const auto since = parse_number<std::uint32_t>(word.substr(at + 1));
  word = word.substr(0, at);
  return since;
}

// Parses "eps:f=1e-6".
OpAttr parse_attr(std::string_view word) {
  const std::uint32_t since = take_since(word);
  std::size_t colon = word.find(':');
  std::size_t equals = std::min(word.find('='), word.size());
  std::string_view kind = word.substr(colon + 1, equals - colon - 1);
  bool has_default = equals < word.size();
  std::string_view fallback = has_default ? word.substr(equals + 1) : "";
  OpAttr attr{std::string(word.substr(0, colon)), {}, false, false, since};
  if (kind == "i" || kind == "b") {
    attr.fallback = parse_number<std::int64_t>(fallback);
    attr.is_flag = kind == "b";
  } else if (kind == "f") {
    attr.fallback = parse_number<double>(fallback);
  } else if (kind == "s") {
    attr.fallback = std::string(fallback);
    attr.required = !has_default;
  } else if (kind == "il") {
    attr.fallback = std::vector<std::int64_t>{};
  } else if (kind == "fl") {
    attr.fallback = std::vector<double>{};
  } else {
    LAMINA_ASSERT(kind == "g");
    attr.fallback = std::shared_ptr<const Graph>{};
    attr.required = true;
  }
  return attr;
}

struct Row {
  OpCode code;
  std::uint32_t id, revision, since;
  std::string_view name, inputs, outputs, attrs, doc;
};

constexpr Row kRows[] = {
#define LAMINA_OP(id, name, revision, since, inputs, outputs, attrs, doc) \
  {OpCode::name, id, revision, since, #name, inputs, outputs, attrs, doc},
#include "lamina/ops.def"
#define LAMINA_INTERNAL_OP(name, inputs, outputs, attrs, doc) \
  {OpCode::name, 0, 0, 0, #name, inputs, outputs, attrs, doc},
#include "ops/internal.def"
};

// Operands that the host adds according to ops' files.
struct HostOperands {
  std::string_view op, inputs, attrs;
};

constexpr HostOperands kHostOperands[] = {
#define LAMINA_HOST_INPUTS(op, inputs) {#op, inputs, ""},
#define LAMINA_HOST_ATTRS(op, attrs) {#op, "", attrs},
#include "ops/host_operands.def"
};

// "=rope" means the attributes of rope, which must come earlier.
std::vector<OpAttr> parse_attrs(std::string_view text, const std::vector<Op>& earlier) {
  if (text.starts_with('=')) {
    auto like = std::ranges::find(earlier, text.substr(1), &Op::name);
    LAMINA_ASSERT(like != earlier.end());
    return like->attrs;
  }
  return parse_attributes(text);
}

}  // namespace

std::vector<OpInput> parse_operands(std::string_view text) {
  std::vector<OpInput> out;
  for (std::string_view word : words(text)) {
    OpInput input;
    input.since = take_since(word);
    input.optional = word.back() == '?';
    input.variadic = word.back() == '*';
    if (input.optional || input.variadic) word.remove_suffix(1);
    input.name = word;
    out.push_back(std::move(input));
  }
  return out;
}

std::vector<OpAttr> parse_attributes(std::string_view text) {
  std::vector<OpAttr> out;
  for (std::string_view word : words(text)) out.push_back(parse_attr(word));
  return out;
}

std::vector<Op> parse_rows() {
  std::vector<Op> out;
  out.reserve(std::size(kRows));
  for (const Row& row : kRows) {
    Op op{.code = row.code,
          .id = row.id,
          .revision = row.revision,
          .since = row.since,
          .name = std::string(row.name),
          .inputs = parse_operands(row.inputs),
          .outputs = parse_operands(row.outputs),
          .attrs = parse_attrs(row.attrs, out),
          .doc = std::string(row.doc)};
    op.num_plugin_inputs = op.inputs.size();
    op.num_plugin_attrs = op.attrs.size();
    out.push_back(std::move(op));
  }
  for (const HostOperands& more : kHostOperands) {
    auto op = std::ranges::find(out, more.op, &Op::name);
    LAMINA_ASSERT(op != out.end());
    std::ranges::copy(parse_operands(more.inputs), std::back_inserter(op->inputs));
    std::ranges::copy(parse_attrs(more.attrs, out), std::back_inserter(op->attrs));
  }
  return out;
}

}  // namespace lamina::ops
