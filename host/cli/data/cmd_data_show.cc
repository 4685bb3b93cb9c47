// lamina data show: rows as the model sees them.
#include <fmt/format.h>

#include <algorithm>

#include "cli/data/data_lines.h"
#include "cli/data/data_rows.h"
#include "cli/shell/command.h"
#include "cli/shell/plugins.h"
#include "cli/shell/terminal.h"
#include "cli/shell/units.h"
#include "config/run_config.h"
#include "core/error.h"
#include "core/log.h"
#include "data/load.h"
#include "device/workers.h"
#include "model/training.h"
#include "train/loop/run.h"

namespace lamina::cli {
namespace {

constexpr double kMaxSkipped = std::int64_t{1} << 40;

// Returns how many rows to print. Training reads its rows again in another order, so each of them
// follows; validation ends with its last one.
std::int64_t num_shown(const Arguments& a, const data::Dataset& rows) {
  const auto num_rows = static_cast<std::int64_t>(rows.num_rows());
  const std::int64_t shown = std::min(a.integer("rows"), num_rows);
  if (!a.flag("validation")) return shown;
  if (a.integer("skip") >= num_rows)
    throw UserError(ExitCode::usage, {"--skip",
                                      fmt::format("got {}; there are {}", a.integer("skip"),
                                                  number_of(num_rows, "validation row")),
                                      {fmt::format("use at most {}", num_rows - 1)}});
  return std::min(shown, num_rows - a.integer("skip"));
}

int run_show(const Arguments& a, const Device& device) {
  const config::RunConfig c =
      config::load_run(a.positionals[0], {a.texts("set"), config::process_environment()});
  device.use_threads(a.globals.threads ? a.globals.threads : c.run.threads);
  const config::DataSection section = model::data_section(c);
  const auto tokenizer = data::load_tokenizer(section);
  const std::int64_t vocab_size = model::data_vocab_size(c, plugin_catalog(a.globals), *tokenizer);
  const data::RunData all = train::with_data_places(c, [&] {
    return data::load_data(section, c.run.seed, *tokenizer, vocab_size,
                           {.workers = device::workers(device)});
  });
  if (a.flag("validation") && all.validation.empty())
    throw UserError(ExitCode::data, {c.file.string(),
                                     "has no validation data",
                                     {"set data.validation_fraction or data.validation"}});
  const data::Dataset& rows = a.flag("validation") ? all.validation.front() : all.train;
  data::Batch batch;
  rows.read({}, a.integer("skip"), num_shown(a, rows), batch);
  if (a.flag("json")) {
    print(rows_json(*tokenizer, batch, rows, all.form));
    return 0;
  }
  for (const std::string& line : data_lines(all)) log::info("{}", line);
  const bool color = describe_terminal(output_descriptor(), a.globals.color).color;
  for (std::size_t n = 0; n < static_cast<std::size_t>(batch.num_rows); ++n) {
    const DataRow row = row_of(batch, n);
    const auto padding = std::ranges::count(row.segments, 0);
    print(fmt::format("row {}: {} tokens, {} in the loss, {} of padding\n",
                      a.integer("skip") + static_cast<std::int64_t>(n),
                      std::ssize(row.tokens) - padding, row.num_labels(), padding));
    print_bytes(row_text(*tokenizer, row, all.form, color) + "\n\n");
  }
  return 0;
}

}  // namespace

Command data_show_command() {
  return {
      .name = "data show",
      .summary = "prints rows as the model sees them, with the tokens in the loss marked",
      .details =
          "Tokens in the loss are green, the rest dim; without colour they are between "
          "{+ and +}. Segments do not see each other. Tokens without a text are shown "
          "as <id>. With --json: token ids, labels (-100: not in the loss), segments, positions "
          "and the text of each token; with data.form = \"preference\" also \"answers\", which "
          "says for each segment if it is the chosen or the rejected answer.",
      .options = {integer_option("rows", 'n', 3, "Rows to print.", 1, 1 << 20),
                  integer_option("skip", 0, 0, "Rows to skip, in training order.", 0, kMaxSkipped),
                  {.key = {.name = "validation",
                           .type = Type::boolean,
                           .doc = "Validation rows instead of training rows."}},
                  set_option(),
                  json_option()},
      .positionals = {{.name = "RUN.toml", .doc = "The run file."}},
      .examples = {"lamina data show run.toml",
                   "lamina data show run.toml -n 1 --set data.loss_on=last --json"},
      .run = run_show};
}

}  // namespace lamina::cli
