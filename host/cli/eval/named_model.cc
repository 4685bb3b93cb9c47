#include "cli/eval/named_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lamina::cli {

NamedModel name_model(const Arguments& a, const model::OpenedModel& opened) {
  NamedModel out = {{"model", opened.directory}};
  if (!opened.adapter.empty() && opened.adapter != opened.directory)
    out.emplace_back("adapter", opened.adapter);
  if (opened.average) out.emplace_back("weights", a.text("weights"));
  if (a.has("quantize")) out.emplace_back("quantize", a.text("quantize"));
  if (const std::vector<std::string>& rules = a.texts("quantize-rule"); !rules.empty())
    out.emplace_back("quantize_rules", fmt::format("{}", fmt::join(rules, ", ")));
  if (a.has("kv-dtype")) out.emplace_back("kv_dtype", a.text("kv-dtype"));
  return out;
}

std::string model_lines(const NamedModel& named, std::size_t width) {
  std::string out;
  for (const auto& [name, value] : named) out += fmt::format("{:<{}} {}\n", name, width - 1, value);
  return out;
}

void write_model(JsonWriter& json, const NamedModel& named) {
  for (const auto& [name, value] : named) json.key(name).value(value);
}

}  // namespace lamina::cli
