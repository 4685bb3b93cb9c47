// Field binding that does not depend on the struct.
#include "config/fields.h"

namespace lamina::config::detail {

Key make_key(std::string name, Type type, Type element, Declaration declaration) {
  Key key;
  key.name = std::move(name);
  key.type = type;
  key.element = element;
  key.preset_text = std::move(declaration.preset_text);
  key.unit = std::move(declaration.unit);
  key.min = declaration.min;
  key.max = declaration.max;
  key.min_excluded = declaration.min_excluded;
  key.max_excluded = declaration.max_excluded;
  key.choices = std::move(declaration.choices);
  key.doc = std::move(declaration.doc);
  key.required = declaration.required;
  key.hot = declaration.hot;
  key.path = declaration.path;
  key.path_words = std::move(declaration.path_words);
  key.only_for = std::move(declaration.only_for);
  return key;
}

}  // namespace lamina::config::detail
