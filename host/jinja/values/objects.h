// Values that refer to a render in progress: macros, functions, namespaces, loops.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/values/value.h"

namespace lamina::jinja {

class Interpreter;
struct Macro;  // of the syntax tree

// The arguments of a call.
struct CallArguments {
  Vector<TemplateValue> positional = {};
  Vector<Dict::Entry> named = {};  // by strings, which may come from outside: f(**message)
};

// The variables of a block, and of the enclosing blocks.
struct Scope : Object {
  explicit Scope(std::shared_ptr<Scope> around)
      : Object(sizeof(Scope), 0), parent(std::move(around)) {}
  void set(int name, TemplateValue value);
  const TemplateValue* find(int name) const;  // here or in an enclosing scope
  std::shared_ptr<Scope> parent;
  Vector<std::pair<int, TemplateValue>> variables;
};

struct Namespace : Object {
  Namespace() : Object(0, 1) {}
  Vector<Dict::Entry> attributes;  // by strings
  const TemplateValue* find(std::string_view name) const;
  void set(TemplateValue name, TemplateValue value);
};

// A function of the host, a method of a value, or a macro of the template.
struct Callable : Object {
  using Function = TemplateValue (*)(Interpreter&, const CallArguments&);
  Callable(std::string called, Function of_host)
      : Object(sizeof(Callable), 1), name(std::move(called)), function(of_host) {}
  Callable(std::string method, TemplateValue of)
      : Object(sizeof(Callable), of.depth() + 1), name(std::move(method)), self(std::move(of)) {}
  Callable(std::string called, const Macro* of_template, std::shared_ptr<Scope> in)
      : Object(sizeof(Callable), 1),
        name(std::move(called)),
        macro(of_template),
        scope(std::move(in)) {}
  std::string name;
  Function function = nullptr;
  bool is_type = false;  // prints as "<class ...>"
  TemplateValue self;    // for a method
  const Macro* macro = nullptr;
  std::shared_ptr<Scope> scope;  // where the macro was defined
};
bool same_callable(const TemplateValue& a, const TemplateValue& b);

// cycler('odd', 'even')
struct Cycler : Object {
  explicit Cycler(Vector<TemplateValue> values)
      : Object(0, deepest(values) + 1), items(std::move(values)) {}
  Vector<TemplateValue> items;
  std::size_t at = 0;
};

// joiner(', '): empty at the first call, then the separator.
struct Joiner : Object {
  explicit Joiner(TemplateValue text) : Object(0, text.depth() + 1), separator(std::move(text)) {}
  TemplateValue separator;
  bool used = false;
};

}  // namespace lamina::jinja
