// lamina config import: converts a MaxText configuration to a run file.
#include <fmt/format.h>

#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/terminal.h"
#include "config/run_config.h"
#include "core/error.h"
#include "imports/key_page.h"
#include "imports/run_file.h"
#include "model/training.h"
#include "train/loop/run.h"

namespace lamina::cli {
namespace {

// Checks the model, its adapters, its groups of parameters and its loss as training would. The
// directory of train.from has the whole model.
void check_model(const Arguments& a, const imports::Imported& imported) {
  const config::RunConfig run = config::parse_run(imported.toml, imports::kRunFile);
  if (!run.train.from.empty()) return;
  try {
    const auto model = model::open_trained(run, plugin_catalog(a.globals));
    model->check_length(run.data.sequence_length, config::place_in(run)("data.sequence_length"));
    const train::TrainStepOptions step = train::loop_options(run, 1).step();
    static_cast<void>(model->loss_graph(
        step.shape, {.segments = step.features.segments, .training = true, .aux = true}));
  } catch (const UserError& error) {
    imports::fail_at_settings(error, imported);
  }
}

int run_import(const Arguments& a, const Device&) {
  if (a.flag("markdown")) return print(imports::key_tables()), 0;
  if (a.positionals.empty())
    throw UserError(ExitCode::usage, {"config import", "needs FILE.yml", {}});
  const imports::Imported imported = imports::import_run(imports::read_configuration(
      a.positionals[0], {a.positionals.begin() + 1, a.positionals.end()}));
  check_model(a, imported);
  for (const std::string& line : imported.said) fmt::print(stderr, "{}\n", line);
  print(imported.toml);
  return 0;
}

}  // namespace

Command config_import_command() {
  return {
      .name = "config import",
      .summary = "converts a MaxText configuration to a run file",
      .details =
          "Prints the run file. Settings that are not carried over, or mean something else than "
          "they seem "
          "to, are listed on stderr with the reason; an unsupported value "
          "is an error. base.yml must be beside the file, in its parent folder, or at the path in "
          "`base_config`. docs/from_maxtext.md has the table of keys.",
      .options = {{.key = {.name = "markdown",
                           .type = Type::boolean,
                           .doc = "Print the tables of docs/from_maxtext.md."}}},
      .positionals = {{.name = "FILE.yml",
                       .doc = "The configuration: a model's, one with a model_name, or "
                              "base.yml; then KEY=VALUE as on MaxText's command line.",
                       .required = false,
                       .repeatable = true}},
      .examples = {"lamina config import maxtext/configs/models/X.yml > run.toml",
                   "lamina config import base.yml model_name=X steps=1000"},
      .run = run_import};
}

}  // namespace lamina::cli
