#include "cli/plan/storage_text.h"

#include <fmt/format.h>

#include "cli/shell/text_table.h"
#include "cli/shell/units.h"

namespace lamina::cli {

std::string storage_text(const std::vector<inspect::ParameterStorage>& parameters) {
  if (parameters.empty()) return "";
  TextTable table(3);
  for (const inspect::ParameterStorage& p : parameters)
    table.row(
        {p.name,
         p.count == 1 ? to_string(p.shape) : fmt::format("{} x {}", p.count, to_string(p.shape)),
         p.storage, bytes_text(static_cast<double>(p.bytes))});
  return "storage of the parameters\n" + table.text();
}

}  // namespace lamina::cli
