#include "jinja/library/filters.h"

#include <algorithm>

#include "core/suggest.h"

namespace lamina::jinja {
namespace {

template <typename Visit>
void each_group(const Visit& visit) {
  for (const auto filters : {text_filters, markup_filters, number_filters, list_filters,
                             order_filters, selection_filters})
    visit(filters());
}

}  // namespace

const Filter* find_filter(std::string_view name) {
  const Filter* found = nullptr;
  each_group([&](std::span<const Filter> filters) {
    for (const Filter& filter : filters)
      if (filter.name == name) found = &filter;
  });
  return found;
}

std::string describe_unknown_filter(std::string_view name) {
  std::vector<std::string> names;
  each_group([&](std::span<const Filter> filters) {
    for (const Filter& filter : filters) names.emplace_back(filter.name);
  });
  const std::string nearest = nearest_name(name, names);
  return fmt::format("there is no filter '{}'{}", name,
                     nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
}

}  // namespace lamina::jinja
