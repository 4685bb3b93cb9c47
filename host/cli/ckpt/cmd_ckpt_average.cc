// lamina ckpt average: the mean of several checkpoints.
#include <fmt/format.h>

#include "cli/ckpt/output_directory.h"
#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/text.h"
#include "cli/shell/units.h"
#include "core/error.h"
#include "model/average.h"
#include "model/open.h"

namespace lamina::cli {
namespace {

int run_average(const Arguments& a, const Device&) {
  if (a.positionals.size() < 2)
    throw UserError(ExitCode::usage,
                    {"ckpt average", "needs at least two checkpoints", {"name them all: A B ..."}});
  const weights::Exported out = model::while_training(a.positionals, [&] {
    return model::average_models(a.positionals, a.text("to"), plugin_catalog(a.globals));
  });
  print(fmt::format("{}: {} tensors, {}, the mean of {}\n", a.text("to"), out.num_tensors,
                    bytes_text(static_cast<double>(out.num_bytes)), a.positionals.size()));
  return 0;
}

}  // namespace

Command ckpt_average_command() {
  return {.name = "ckpt average",
          .summary = "writes the mean of several checkpoints of one model",
          .details =
              "Each tensor is summed in float64 in their order and rounded once to its type. "
              "The directory has the layout, config and tokenizer of the first checkpoint and no "
              "optimizer state. It can be decoded, evaluated, exported and trained from. All "
              "checkpoints must have the same tensors, and equal quantised weights, which are "
              "copied.",
          .options = {to_option()},
          .positionals = {{.name = "DIR",
                           .doc = "Run directories, checkpoints or Hugging Face directories.",
                           .repeatable = true}},
          .examples = {"lamina ckpt average runs/a runs/b --to mean"},
          .run = run_average};
}

}  // namespace lamina::cli
