// Renders templates in tests.
#pragma once

#include <string>
#include <string_view>

#include "jinja/template.h"

namespace lamina::testing {

// The text of `source` with the variables of a JSON object, all of which count as given.
inline jinja::Rendered render_all(std::string_view source, const std::string& context = "{}",
                                  const jinja::RenderOptions& options = {}) {
  const JsonDocument document = JsonDocument::parse(context, "context.json");
  jinja::Variables variables;
  for (const auto& [name, value] : document.root().members())
    variables.emplace_back(name, jinja::from_json(value));
  return jinja::Template::parse(source, "t.jinja").render(variables, options);
}

inline std::string render(std::string_view source, const std::string& context = "{}") {
  return render_all(source, context).text;
}

}  // namespace lamina::testing
