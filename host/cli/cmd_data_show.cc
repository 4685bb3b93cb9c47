// lamina data show: rows as the model sees them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/data_lines.h"
#include "cli/workers.h"
#include "config/run_config.h"
#include "core/error.h"
#include "core/json_writer.h"
#include "core/log.h"
#include "core/read_file.h"
#include "data/load.h"
#include "train/run.h"

namespace lamina::cli {
namespace {

// One row of a batch.
struct Row {
  std::span<const std::int32_t> tokens, labels, segments, positions;

  std::size_t num_labels() const {
    return tokens.size() -
           static_cast<std::size_t>(std::ranges::count(labels, data::kIgnoredLabel));
  }
  // Whether the model learns to write the token.
  bool is_learned(std::size_t i) const {
    return i > 0 && segments[i] == segments[i - 1] && labels[i - 1] != data::kIgnoredLabel;
  }
};

Row row_of(const data::Batch& batch, std::size_t n) {
  const auto width = static_cast<std::size_t>(batch.tokens_per_row);
  const auto part = [&](const std::vector<std::int32_t>& values) {
    return std::span(values).subspan(n * width, width);
  };
  return {part(batch.tokens), part(batch.labels), part(batch.segment_ids), part(batch.positions)};
}

std::string text_of(const text::Tokenizer& tokenizer, std::int32_t id) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  return bytes.empty() ? fmt::format("<{}>", id) : std::string(bytes);
}

// The segments of a row, what is learned green and the rest dim; without colour, {+learned+}.
std::string shown(const text::Tokenizer& tokenizer, const Row& row, bool color) {
  const std::string_view begin[] = {color ? "\033[2m" : "", color ? "\033[32m" : "{+"};
  const std::string_view end[] = {color ? "\033[0m" : "", color ? "\033[0m" : "+}"};
  std::string out;
  for (std::size_t i = 0; i < row.tokens.size() && row.segments[i] != 0;) {
    if (row.positions[i] == 0)
      out += fmt::format("{}segment {}:\n", i == 0 ? "" : "\n", row.segments[i]);
    const bool learned = row.is_learned(i);
    const std::size_t first = i;
    std::string part;
    for (; i < row.tokens.size() && row.segments[i] == row.segments[first] &&
           row.is_learned(i) == learned;
         ++i)
      part += text_of(tokenizer, row.tokens[i]);
    out += fmt::format("{}{}{}", begin[learned], printable_lines(part), end[learned]);
  }
  return out;
}

void add_numbers(JsonWriter& json, const char* key, std::span<const std::int32_t> values) {
  json.key(key).begin_array();
  for (std::int32_t value : values) json.value(value);
  json.end_array();
}

std::string as_json(const text::Tokenizer& tokenizer, const data::Batch& batch,
                    const data::Dataset& rows) {
  JsonWriter json;
  json.begin_object().key("num_rows").value(rows.num_rows()).key("num_labels");
  json.value(rows.num_labels()).key("rows").begin_array();
  for (std::size_t n = 0; n < static_cast<std::size_t>(batch.num_rows); ++n) {
    const Row row = row_of(batch, n);
    json.begin_object();
    add_numbers(json, "tokens", row.tokens);
    add_numbers(json, "labels", row.labels);
    add_numbers(json, "segments", row.segments);
    add_numbers(json, "positions", row.positions);
    json.key("pieces").begin_array();
    for (std::size_t i = 0; i < row.tokens.size(); ++i)
      json.value(row.segments[i] == 0 ? std::string() : text_of(tokenizer, row.tokens[i]));
    json.end_array().end_object();
  }
  return json.end_array().end_object().text() + "\n";
}

int run(const Arguments& a, const Machine& machine) {
  const config::RunConfig c =
      config::load_run(a.positionals[0], {a.texts("set"), config::process_environment()});
  machine.use_threads(a.globals.threads ? a.globals.threads : c.run.threads);
  const config::DataSection section = train::data_section(c);
  const auto tokenizer = data::load_tokenizer(section);
  const data::RunData all = data::load_data(section, c.run.seed, *tokenizer,
                                            tokenizer->vocab_size(), {.workers = workers(machine)});
  if (a.flag("validation") && all.validation.empty())
    throw UserError(ExitCode::data, {c.file.string(),
                                     "holds out nothing for validation",
                                     {"set data.validation_fraction or data.validation"}});
  const data::Dataset& rows = a.flag("validation") ? all.validation.front() : all.train;
  data::Batch batch;
  rows.read({}, a.integer("skip"),
            std::min(a.integer("rows"), static_cast<std::int64_t>(rows.num_rows())), batch);
  if (a.flag("json")) {
    print(as_json(*tokenizer, batch, rows));
    return 0;
  }
  for (const std::string& line : data_lines(all)) log::info("{}", line);
  const bool color = describe_terminal(STDOUT_FILENO, a.globals.color).color;
  for (std::size_t n = 0; n < static_cast<std::size_t>(batch.num_rows); ++n) {
    const Row row = row_of(batch, n);
    const auto padding = std::ranges::count(row.segments, 0);
    print(fmt::format("row {}: {} tokens, {} in the loss, {} of padding\n",
                      a.integer("skip") + static_cast<std::int64_t>(n),
                      std::ssize(row.tokens) - padding, row.num_labels(), padding));
    print_bytes(shown(*tokenizer, row, color) + "\n\n");
  }
  return 0;
}

}  // namespace

Command data_show_command() {
  return {.name = "data show",
          .summary = "prints rows as the model sees them, with what it learns of them",
          .details =
              "What the model learns to write is green, the rest dim; without colour it stands "
              "between {+ and +}. Segments do not see each other. Tokens without a text are shown "
              "as <id>. With --json: token ids, labels (-100 is not learned), segments, positions "
              "and the text of each token.",
          .options = {integer_option("rows", 'n', 3, "Rows to print.", 1, 1 << 20),
                      integer_option("skip", 0, 0, "Rows to pass over, in training order.", 0),
                      {.key = {.name = "validation",
                               .type = Type::boolean,
                               .doc = "Rows that are held out in place of those trained on."}},
                      set_option(),
                      json_option()},
          .positionals = {{.name = "RUN.toml", .doc = "The run file."}},
          .examples = {"lamina data show run.toml",
                       "lamina data show run.toml -n 1 --set data.loss_on=last --json"},
          .run = run};
}

}  // namespace lamina::cli
