#include "jinja/values/objects.h"

#include <algorithm>

namespace lamina::jinja {

void Scope::set(int name, TemplateValue value) {
  Budget::step(variables.size() / 64);
  for (auto& [known, old] : variables)
    if (known == name) {
      old = std::move(value);
      return;
    }
  variables.emplace_back(name, std::move(value));
}

const TemplateValue* Scope::find(int name) const {
  for (const Scope* scope = this; scope; scope = scope->parent.get()) {
    Budget::step(scope->variables.size() / 64);
    for (const auto& [known, value] : scope->variables)
      if (known == name) return &value;
  }
  return nullptr;
}

const TemplateValue* Namespace::find(std::string_view name) const {
  Budget::step(attributes.size() / 16);
  for (const auto& [known, value] : attributes)
    if (equal(known.text(), name)) return &value;
  return nullptr;
}

void Namespace::set(TemplateValue name, TemplateValue value) {
  Budget::step(attributes.size() / 16);
  for (auto& [known, old] : attributes)
    if (equal(known.text(), name.text())) {
      old = std::move(value);
      return;
    }
  attributes.emplace_back(std::move(name), std::move(value));
}

bool same_callable(const TemplateValue& a, const TemplateValue& b) {
  const auto &x = a.as<Callable>(), &y = b.as<Callable>();
  if (x.self.is(Kind::undefined)) return &x == &y;
  return x.name == y.name && same(x.self, y.self);
}

}  // namespace lamina::jinja
