// Statements.
#include <algorithm>

#include "jinja/interpreter.h"
#include "jinja/library/library.h"

namespace lamina::jinja {

Interpreter::~Interpreter() {
  for (const auto& space : spaces_) space->attributes.clear();
  for (const auto& scope : scopes_) scope->variables.clear();
}

Text Interpreter::render(const std::vector<std::pair<std::string, TemplateValue>>& variables) {
  scope_ = std::make_shared<Scope>(nullptr);
  keep(scope_);
  // Only names that occur in the template have a symbol.
  const auto symbol = [this](std::string_view name) {
    const auto found = std::ranges::find(tree_.symbols, name);
    return found == tree_.symbols.end() ? -1 : static_cast<int>(found - tree_.symbols.begin());
  };
  for (const GlobalFunction& global : global_functions())
    if (const int name = symbol(global.name); name >= 0) {
      const auto callable = std::make_shared<Callable>(global.printed, global.function);
      callable->is_type = global.is_type;
      scope_->set(name, TemplateValue::object(Kind::callable, callable));
    }
  for (const auto& [name, value] : variables)
    if (const int known = symbol(name); known >= 0) scope_->set(known, value);
  Inner top(*this);  // assignments do not change the given variables
  keep(scope_);
  top_ = scope_;
  if (const int self = symbol("self"); self >= 0) top_->set(self, blocks());
  Text text;
  root_ = out_ = &text;
  execute(tree_.body);
  return text;
}

// The variable "self": its attributes are the blocks, as functions.
TemplateValue Interpreter::blocks() {
  const auto all = std::make_shared<Namespace>();
  keep(all);
  for (const Macro* block : tree_.blocks)
    all->set(TemplateValue::string(block->name),
             TemplateValue::object(Kind::callable,
                                   std::make_shared<Callable>(block->name, block, top_)));
  return TemplateValue::object(Kind::space, all);
}

void Interpreter::write(TextView text) {
  Budget::step(text.size() / 16 + 1);
  num_written_ += text.size();
  const std::size_t most = Budget::current()->limits().max_output;
  if (num_written_ > most) fail("writes more than {} characters", most);
  *out_ += text;
}

void Interpreter::write(const TemplateValue& value) {
  if (escapes_)
    write(TextView(escape(value)));
  else if (value.is(Kind::string))
    write(TextView(value.text()));
  else
    write(TextView(str(value)));
}

Text Interpreter::capture(const Body& body, Flow& flow) {
  Text text;
  {
    const Output output(*this, text);
    flow = execute(body);
  }
  return text;
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  const Level level(*this);
  for (const auto& statement : body)
    if (const Flow flow = execute(*statement); flow != Flow::normal) return flow;
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
  Budget::step();
  switch (statement.kind) {
    case StatementKind::data:
      at_ = statement.at;
      write(TextView(statement.text));
      break;
    case StatementKind::print: {
      const TemplateValue value = evaluate(*statement.expression);
      at_ = statement.at;
      write(value);
      break;
    }
    case StatementKind::conditional:
      return execute_conditional(statement);
    case StatementKind::loop:
      execute_loop(statement);
      break;
    case StatementKind::set: {
      const TemplateValue value = evaluate(*statement.expression);
      at_ = statement.at;
      assign(*statement.target, value);
      break;
    }
    case StatementKind::set_block:
      execute_set_block(statement);
      break;
    case StatementKind::filter_block:
      execute_filter_block(statement);
      break;
    case StatementKind::macro:
      execute_macro(statement);
      break;
    case StatementKind::call:
      execute_call(statement);
      break;
    case StatementKind::with:
    case StatementKind::block:
    case StatementKind::scoped_block:
    case StatementKind::autoescape:
    case StatementKind::generation:
      return execute_block(statement);
    case StatementKind::break_loop:
      return Flow::break_loop;
    case StatementKind::next_iteration:
      return Flow::next_iteration;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute_conditional(const Statement& statement) {
  for (const auto& [condition, body] : statement.branches)
    if (truth(evaluate(*condition))) return execute(body);
  return execute(statement.otherwise);
}

Interpreter::Flow Interpreter::execute_block(const Statement& statement) {
  // Values of `with` are evaluated outside its scope, so they do not see each other.
  Vector<TemplateValue> values;
  for (const auto& [target, value] : statement.variables) values.push_back(evaluate(*value));
  const bool escaped = escapes_;
  if (statement.kind == StatementKind::autoescape)
    escapes_ = truth(evaluate(*statement.expression));
  const Inner inner(*this, statement.kind == StatementKind::block ? top_ : scope_);
  for (std::size_t i = 0; i < values.size(); ++i) assign(*statement.variables[i].first, values[i]);
  const std::size_t begin = out_->size();
  const Flow flow = execute(statement.macro ? statement.macro->body : statement.body);
  if (statement.kind == StatementKind::generation && out_ == root_)
    generated_.push_back({{begin, out_->size()}, visited_element()});
  escapes_ = escaped;
  return flow;
}

void Interpreter::execute_set_block(const Statement& statement) {
  TemplateValue value;
  {
    const Inner inner(*this);
    Flow flow = Flow::normal;
    value = TemplateValue::string(capture(statement.body, flow), escapes_);
    if (statement.expression) value = evaluate_filter(*statement.expression, &value);
  }
  at_ = statement.at;
  assign(*statement.target, value);
}

void Interpreter::execute_filter_block(const Statement& statement) {
  const Inner inner(*this);
  Flow flow = Flow::normal;
  const TemplateValue input = TemplateValue::string(capture(statement.body, flow), escapes_);
  const TemplateValue value = evaluate_filter(*statement.expression, &input);
  at_ = statement.at;
  if (!value.is(Kind::string))
    fail("the filters of a filter block must give a string, got {}", type_name(value));
  write(value);
}

void Interpreter::execute_macro(const Statement& statement) {
  keep(scope_);
  scope_->set(statement.symbol,
              TemplateValue::object(Kind::callable,
                                    std::make_shared<Callable>(statement.macro->name,
                                                               statement.macro.get(), scope_)));
}

void Interpreter::execute_call(const Statement& statement) {
  keep(scope_);
  const Expression& e = *statement.expression;
  const TemplateValue function = evaluate(*e.children[0]);
  CallArguments arguments = evaluate_arguments(e);
  arguments.named.emplace_back(
      TemplateValue::string("caller"),
      TemplateValue::object(Kind::callable,
                            std::make_shared<Callable>("caller", statement.macro.get(), scope_)));
  at_ = e.at;
  const TemplateValue value = call(function, arguments);
  at_ = statement.at;
  write(value);
}

void Interpreter::assign(const Expression& target, const TemplateValue& value) {
  if (target.kind == ExpressionKind::name) {
    scope_->set(target.symbol, value);
  } else if (target.kind == ExpressionKind::namespace_ref) {
    const TemplateValue* space = scope_->find(target.symbol);
    if (!space || !space->is(Kind::space))
      fail("'{}' is not a namespace, so its attribute '{}' cannot be set",
           tree_.symbols[static_cast<std::size_t>(target.symbol)], target.name);
    check_attribute_name(target.name);
    space->as<Namespace>().set(TemplateValue::string(target.name), value);
  } else {
    const Vector<TemplateValue> items = elements(value);
    if (items.size() > target.children.size())
      fail("too many values to unpack (expected {})", target.children.size());
    if (items.size() < target.children.size())
      fail("not enough values to unpack (expected {}, got {})", target.children.size(),
           items.size());
    for (std::size_t i = 0; i < items.size(); ++i) assign(*target.children[i], items[i]);
  }
}

}  // namespace lamina::jinja
