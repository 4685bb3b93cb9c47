// Filters grouped by their input; one table (filters.cc) joins them. Private to the library.
#pragma once

#include <span>

#include "jinja/library/library.h"

namespace lamina::jinja {

std::span<const Filter> text_filters();       // text_filters.cc
std::span<const Filter> markup_filters();     // markup_filters.cc: entities, URLs
std::span<const Filter> number_filters();     // number_filters.cc
std::span<const Filter> list_filters();       // list_filters.cc: lists from lists
std::span<const Filter> order_filters();      // order_filters.cc: sorting and grouping
std::span<const Filter> selection_filters();  // selection_filters.cc: map, select and similar

// Looks up a filter's argument `attribute`: "a.b.0" visits item by item. No attribute: the value
// itself. An undefined value on the path becomes `absent` if that is given.
TemplateValue look_up_attribute(Interpreter& interpreter, const TemplateValue& of,
                                const TemplateValue* attribute,
                                const TemplateValue* absent = nullptr);
// Makes the result of a filter whose elements are computed when they are read. `next` keeps `value`
// and arguments of the call.
TemplateValue computed_later(const TemplateValue& value, const CallArguments& call,
                             Generator::Next next);
// Strings in lower case, for comparisons without case; other values unchanged.
TemplateValue without_case(const TemplateValue& value);

}  // namespace lamina::jinja
