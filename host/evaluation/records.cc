#include "evaluation/records.h"

#include <fmt/ranges.h>

#include <cmath>

#include "core/error.h"

namespace lamina::evaluation {

void no_records(const std::vector<std::string>& files) {
  throw UserError(
      ExitCode::data,
      {fmt::format("{}", fmt::join(files, ", ")), "has no record; nothing to evaluate", {}});
}

std::vector<std::string> texts_of(const JsonValue& value) {
  std::vector<std::string> out;
  if (!value.is_array()) return {std::string(value.as_string())};
  for (const JsonValue text : value.elements()) out.emplace_back(text.as_string());
  if (out.empty()) value.fail("must have at least one text");
  return out;
}

double Share::value() const {
  return total == 0 ? 0 : static_cast<double>(count) / static_cast<double>(total);
}

std::optional<double> Share::standard_error() const {
  if (total < 2) return std::nullopt;
  return std::sqrt(value() * (1 - value()) / static_cast<double>(total - 1));
}

}  // namespace lamina::evaluation
