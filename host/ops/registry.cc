#include "ops/registry.h"

#include <charconv>
#include <deque>
#include <unordered_map>

#include "core/error.h"
#include "ops/op.h"

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

std::vector<OpInput> parse_operands(std::string_view text) {
  std::vector<OpInput> out;
  for (std::string_view word : words(text)) {
    OpInput input;
    input.optional = word.back() == '?';
    input.variadic = word.back() == '*';
    if (input.optional || input.variadic) word.remove_suffix(1);
    input.name = word;
    out.push_back(std::move(input));
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

// "eps:f=1e-6"
OpAttr parse_attr(std::string_view word) {
  std::size_t colon = word.find(':');
  std::size_t equals = std::min(word.find('='), word.size());
  std::string_view kind = word.substr(colon + 1, equals - colon - 1);
  bool has_default = equals < word.size();
  std::string_view fallback = has_default ? word.substr(equals + 1) : "";
  OpAttr attr{std::string(word.substr(0, colon)), {}, false};
  if (kind == "i") {
    attr.fallback = parse_number<std::int64_t>(fallback);
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

Op parse_row(std::uint32_t id, std::string_view name, std::uint32_t revision,
             std::string_view inputs, std::string_view outputs, std::string_view attrs,
             std::string_view doc, const OpDef& def) {
  Op op{id,
        revision,
        std::string(name),
        parse_operands(inputs),
        parse_operands(outputs),
        {},
        std::string(doc),
        &def};
  for (std::string_view word : words(attrs)) op.attrs.push_back(parse_attr(word));
  return op;
}

struct Table {
  std::vector<Op> ops;
  std::unordered_map<std::string_view, const Op*> by_name;
  std::unordered_map<std::uint32_t, const Op*> by_id;

  Table() {
#define LAMINA_OP(id, name, revision, inputs, outputs, attrs, doc) \
  ops.push_back(parse_row(id, #name, revision, inputs, outputs, attrs, doc, name##_op));
#include "lamina/ops.def"
    for (const Op& op : ops) {
      by_name.emplace(op.name, &op);
      by_id.emplace(op.id, &op);
    }
  }
};

const Table& table() {
  static const Table instance;
  return instance;
}

}  // namespace

std::span<const Op> all() { return table().ops; }

const Op* find(std::string_view name) {
  auto found = table().by_name.find(name);
  return found == table().by_name.end() ? nullptr : found->second;
}

const Op* find(std::uint32_t id) {
  auto found = table().by_id.find(id);
  return found == table().by_id.end() ? nullptr : found->second;
}

const Op& get(std::string_view name) {
  const Op* op = find(name);
  LAMINA_ASSERT(op != nullptr);
  return *op;
}

}  // namespace lamina::ops
