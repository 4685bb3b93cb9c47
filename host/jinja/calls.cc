// Calls: macros, loops, functions of the host, methods.
#include <algorithm>

#include "jinja/interpreter.h"
#include "jinja/library/library.h"

namespace lamina::jinja {

TemplateValue Interpreter::call(const TemplateValue& callee, const CallArguments& arguments) {
  const Level level(*this);
  Budget::step();
  switch (callee.kind()) {
    case Kind::undefined:
      throw TemplateFailure(callee.why_undefined());
    case Kind::loop:
      return call_loop(callee, arguments);
    case Kind::joiner: {
      auto& joiner = callee.as<Joiner>();
      return std::exchange(joiner.used, true) ? joiner.separator : TemplateValue::string("");
    }
    case Kind::callable:
      break;
    default:
      fail("'{}' object is not callable", type_name(callee));
  }
  const auto& callable = callee.as<Callable>();
  if (callable.macro) return call_macro(callable, arguments);
  if (callable.function) return callable.function(*this, arguments);
  bool found = false;
  return call_method(*this, callable.self, callable.name, arguments, found);
}

TemplateValue Interpreter::call_macro(const Callable& callable, const CallArguments& arguments) {
  const Macro& macro = *callable.macro;
  const std::size_t count = macro.parameters.size();
  Vector<const TemplateValue*> values(count, nullptr);
  for (std::size_t i = 0; i < std::min(count, arguments.positional.size()); ++i)
    values[i] = &arguments.positional[i];
  if (arguments.positional.size() > count && !macro.uses_varargs)
    fail("macro '{}' takes not more than {} argument(s)", macro.name, count);
  Vector<Dict::Entry> others;
  TemplateValue caller =
      TemplateValue::undefined("no caller is defined: the macro is not called by a call block");
  for (const auto& [key, value] : arguments.named) {
    const std::string name = to_utf8(key.text());
    Budget::step(count / 8);
    const auto parameter = std::find_if(macro.parameters.begin(), macro.parameters.end(),
                                        [&name](const auto& p) { return p.second == name; });
    const auto at = static_cast<std::size_t>(parameter - macro.parameters.begin());
    if (parameter != macro.parameters.end() && !values[at]) {
      values[at] = &value;
    } else if (name == "caller" && macro.uses_caller) {
      caller = value;
    } else if (macro.uses_kwargs) {
      others.emplace_back(key, value);
    } else if (parameter != macro.parameters.end()) {
      fail("macro '{}' got two values for its argument '{}'", macro.name, name);
    } else {
      fail("macro '{}' takes no keyword argument '{}'", macro.name, name);
    }
  }
  const std::shared_ptr<Scope> defined_in =
      callable.scope;  // the callable may be destroyed before the call ends
  const Inner inner(*this, defined_in);
  if (macro.uses_varargs) {
    const auto first = static_cast<std::ptrdiff_t>(std::min(count, arguments.positional.size()));
    scope_->set(kVarargs, TemplateValue::tuple(
                              {arguments.positional.begin() + first, arguments.positional.end()}));
  }
  if (macro.uses_kwargs) scope_->set(kKwargs, make_dict(std::move(others)));
  if (macro.uses_caller) scope_->set(kCaller, caller);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [symbol, name] = macro.parameters[i];
    scope_->set(symbol, values[i] ? *values[i]
                                  : TemplateValue::undefined(
                                        fmt::format("parameter '{}' was not provided", name)));
  }
  // A default sees all parameters: the later ones and itself are undefined, not outer variables.
  const std::size_t first_default = count - macro.defaults.size();
  for (std::size_t i = first_default; i < count; ++i)
    if (!values[i])
      scope_->set(macro.parameters[i].first, evaluate(*macro.defaults[i - first_default]));
  Flow flow = Flow::normal;
  return TemplateValue::string(capture(macro.body, flow), escapes_);
}

// Call of a recursive loop: runs its body for other items.
TemplateValue Interpreter::call_loop(const TemplateValue& loop, const CallArguments& arguments) {
  const LoopVariable& of = loop.as<LoopVariable>();
  if (!of.recursive) fail("the loop must have the 'recursive' marker to be called recursively");
  const Parameters p(arguments, "loop", {"iterable"});
  const Statement& statement = *of.recursive;
  const unsigned depth = of.depth0 + 1;
  Text text;
  {
    const std::shared_ptr<Scope> around = of.scope;
    const Inner inner(*this, around);
    const Output output(*this, text);
    run_loop(statement, p.need(0), depth);
  }
  return TemplateValue::string(std::move(text), escapes_);
}

}  // namespace lamina::jinja
