// lamina plugin ops: lists the ops for blocks of a plugin.
#include <fmt/format.h>

#include "cli/shell/command.h"
#include "cli/shell/text.h"
#include "ops/reference.h"
#include "ops/registry.h"

namespace lamina::cli {
namespace {

int run_ops(const Arguments& arguments, const Device&) {
  if (arguments.flag("markdown")) return print(ops::reference_page()), 0;
  std::string out;
  for (const Op& op : ops::all())
    if (!op.host_only()) out += fmt::format("{:<22}{}\n", op.name, op.doc);
  print(out);
  return 0;
}

}  // namespace

Command plugin_ops_command() {
  return {.name = "plugin ops",
          .summary = "lists the ops that plugins build blocks from",
          .details = "One line per op; docs/ops.md has their attributes, gradients and states.",
          .options =
              {{.key = {.name = "markdown", .type = Type::boolean, .doc = "Print docs/ops.md."}}},
          .examples = {"lamina plugin ops"},
          .run = run_ops};
}

}  // namespace lamina::cli
