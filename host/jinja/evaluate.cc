// Expressions.
#include "jinja/interpreter.h"
#include "jinja/library/library.h"

namespace lamina::jinja {

TemplateValue Interpreter::evaluate(const Expression& e) {
  const Level level(*this);
  Budget::step();
  switch (e.kind) {
    case ExpressionKind::literal:
      return e.literal;
    case ExpressionKind::name:
      return evaluate_name(e);
    case ExpressionKind::attribute: {
      const TemplateValue of = evaluate(*e.children[0]);
      at_ = e.at;
      return attribute(of, e.name);
    }
    case ExpressionKind::item: {
      const TemplateValue of = evaluate(*e.children[0]);
      const TemplateValue key = evaluate(*e.children[1]);
      at_ = e.at;
      return item(of, key);
    }
    case ExpressionKind::slice:
      return evaluate_slice(e);
    case ExpressionKind::call:
      return evaluate_call(e);
    case ExpressionKind::filter:
      return evaluate_filter(e);
    case ExpressionKind::test:
      return evaluate_test(e);
    case ExpressionKind::negative:
    case ExpressionKind::positive: {
      const TemplateValue value = evaluate(*e.children[0]);
      at_ = e.at;
      return e.kind == ExpressionKind::negative ? negative(value) : positive(value);
    }
    case ExpressionKind::logical_not:
      return TemplateValue::boolean(!truth(evaluate(*e.children[0])));
    case ExpressionKind::arithmetic: {
      TemplateValue a = evaluate(*e.children[0]);
      const TemplateValue b = evaluate(*e.children[1]);
      at_ = e.at;
      return arithmetic(e.name, std::move(a), b);
    }
    case ExpressionKind::logical_and:
    case ExpressionKind::logical_or: {
      TemplateValue left = evaluate(*e.children[0]);
      if (truth(left) == (e.kind == ExpressionKind::logical_or)) return left;
      return evaluate(*e.children[1]);
    }
    case ExpressionKind::compare:
      return evaluate_compare(e);
    case ExpressionKind::conditional:
      if (truth(evaluate(*e.children[1]))) return evaluate(*e.children[0]);
      if (e.children.size() == 3) return evaluate(*e.children[2]);
      return TemplateValue::undefined("the inline 'if' has no 'else', and its condition is false");
    case ExpressionKind::concat:
      return evaluate_concat(e);
    case ExpressionKind::list:
    case ExpressionKind::tuple:
    case ExpressionKind::dict:
      return evaluate_items(e);
    case ExpressionKind::namespace_ref:
      break;  // always a target, never a value
  }
  return {};
}

TemplateValue Interpreter::evaluate_name(const Expression& e) {
  if (const TemplateValue* value = scope_->find(e.symbol)) return *value;
  return TemplateValue::undefined(
      fmt::format("'{}' is undefined", tree_.symbols[static_cast<std::size_t>(e.symbol)]));
}

TemplateValue Interpreter::evaluate_slice(const Expression& e) {
  TemplateValue parts[4];
  for (std::size_t i = 0; i < 4; ++i)
    parts[i] = e.children[i] ? evaluate(*e.children[i]) : TemplateValue::none();
  at_ = e.at;
  return slice(parts[0], parts[1], parts[2], parts[3]);
}

CallArguments Interpreter::evaluate_arguments(const Expression& e) {
  CallArguments out;
  for (std::size_t i = 1; i < e.children.size(); ++i)
    out.positional.push_back(evaluate(*e.children[i]));
  if (e.more_positional)
    for (TemplateValue& value : elements(evaluate(*e.more_positional)))
      out.positional.push_back(std::move(value));
  for (const auto& [name, value] : e.named)
    out.named.emplace_back(TemplateValue::string(name), evaluate(*value));
  if (e.more_named) {
    const TemplateValue more = evaluate(*e.more_named);
    if (!more.is(Kind::dict)) fail("argument after ** must be a mapping, not {}", type_name(more));
    for (const auto& [name, value] : more.as<Dict>().entries()) {
      Budget::step();
      if (!name.is(Kind::string)) fail("keywords must be strings");
      out.named.emplace_back(name, value);
    }
  }
  return out;
}

TemplateValue Interpreter::evaluate_call(const Expression& e) {
  const Expression& callee = *e.children[0];
  if (callee.kind != ExpressionKind::attribute) {
    const TemplateValue function = evaluate(callee);
    const CallArguments arguments = evaluate_arguments(e);
    at_ = e.at;
    return call(function, arguments);
  }
  // Calls a method without a temporary value for it.
  const TemplateValue self = evaluate(*callee.children[0]);
  at_ = callee.at;
  if (has_method(self, callee.name) && !is_mutator(self, callee.name)) {
    const CallArguments arguments = evaluate_arguments(e);
    at_ = callee.at;
    bool found = false;
    return call_method(*this, self, callee.name, arguments, found);
  }
  const TemplateValue function = attribute(self, callee.name);
  const CallArguments arguments = evaluate_arguments(e);
  at_ = e.at;
  return call(function, arguments);
}

TemplateValue Interpreter::evaluate_filter(const Expression& e, const TemplateValue* block_input) {
  TemplateValue input;  // the first filter of a block filters the block's text
  if (!e.children[0])
    input = *block_input;
  else if (block_input)
    input = evaluate_filter(*e.children[0], block_input);
  else
    input = evaluate(*e.children[0]);
  const CallArguments arguments = evaluate_arguments(e);
  at_ = e.at;
  if (!e.filter) throw TemplateFailure(describe_unknown_filter(e.name));
  return e.filter->apply(*this, input, arguments);
}

TemplateValue Interpreter::evaluate_test(const Expression& e) {
  const TemplateValue input = evaluate(*e.children[0]);
  const CallArguments arguments = evaluate_arguments(e);
  at_ = e.at;
  if (!e.test) throw TemplateFailure(describe_unknown_test(e.name));
  return TemplateValue::boolean(e.test->apply(*this, input, arguments));
}

// a < b < c evaluates both comparisons, the second only if the first is true.
TemplateValue Interpreter::evaluate_compare(const Expression& e) {
  TemplateValue left = evaluate(*e.children[0]);
  for (std::size_t i = 0; i < e.operators.size(); ++i) {
    TemplateValue right = evaluate(*e.children[i + 1]);
    at_ = e.at;
    if (!compare(e.operators[i], left, right)) return TemplateValue::boolean(false);
    left = std::move(right);
  }
  return TemplateValue::boolean(true);
}

TemplateValue Interpreter::evaluate_concat(const Expression& e) {
  Vector<TemplateValue> parts;
  bool markup = false;
  for (const ExpressionPtr& child : e.children) {
    parts.push_back(evaluate(*child));
    markup |= escapes_ && parts.back().is_safe();
  }
  at_ = e.at;
  Text text;
  for (const TemplateValue& part : parts) {
    text += markup ? escape(part) : str(part);
    Budget::step(text.size() / 64);
  }
  return TemplateValue::string(std::move(text), markup);
}

TemplateValue Interpreter::evaluate_items(const Expression& e) {
  Vector<TemplateValue> items;
  items.reserve(e.children.size());
  for (const ExpressionPtr& child : e.children) items.push_back(evaluate(*child));
  at_ = e.at;
  if (e.kind == ExpressionKind::list) return TemplateValue::list(std::move(items));
  if (e.kind == ExpressionKind::tuple) return TemplateValue::tuple(std::move(items));
  Vector<Dict::Entry> entries;
  for (std::size_t i = 0; i < items.size(); i += 2) entries.emplace_back(items[i], items[i + 1]);
  return make_dict(std::move(entries));
}

}  // namespace lamina::jinja
