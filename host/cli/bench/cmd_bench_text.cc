// lamina bench text: speed of a model's tokenizer, chat template and sampler.
#include <fmt/format.h>

#include <vector>

#include "bench/text_speed.h"
#include "cli/bench/bench_text.h"
#include "cli/shell/command.h"
#include "cli/shell/terminal.h"
#include "core/json_writer.h"
#include "core/read_file.h"
#include "model/place.h"

namespace lamina::cli {
namespace {

// A measured number beside its target or limit.
struct Row {
  std::string_view name, unit;
  double value, bar;
  bool is_limit = false;  // the target is an upper limit
  double ratio() const { return is_limit ? bar / value : value / bar; }
};

std::vector<Row> rows_of(const bench::TextSpeed& t) {
  std::vector<Row> rows = {
      {"vocabulary", "ms", 1e3 * t.load_seconds, 60 * static_cast<double>(t.num_entries) / 150e3,
       true},
      {"encode", "MB/s", 1e-6 * t.encode_bytes_per_second, 20},
      {"decode", "MB/s", 1e-6 * t.decode_bytes_per_second, 20},
      {"sampling", "% of a token", 1e2 * t.sample_share(), 1, true},
  };
  if (t.render_seconds)
    rows.push_back({"template of 100 messages", "ms", 1e3 * *t.render_seconds, 5, true});
  return rows;
}

int run_text(const Arguments& a, const Device& device) {
  device.use_threads(a.globals.threads);
  const std::string text = read_file(a.text("file"), ExitCode::data);
  if (text.empty())
    throw UserError(ExitCode::data,
                    {a.text("file"), "the text is empty", {"give a text of a megabyte or more"}});
  const bench::TextSpeed speed = bench::bench_text(model::tokenizer_files(a.text("model")), text,
                                                   static_cast<int>(a.integer("repeats")), device);
  if (!a.flag("json")) {
    print(
        fmt::format("{:24} {:>10} {:>8}  {:<12} {:>6}\n", "", "measured", "bar", "unit", "ratio"));
    for (const Row& row : rows_of(speed))
      print(fmt::format("{:24} {:10.3g} {:8.3g}  {:<12} {:6.2f}\n", row.name, row.value, row.bar,
                        row.unit, row.ratio()));
    return 0;
  }
  JsonWriter json(2);
  json.begin_object().key("workload").value("text").key("model").value(a.text("model"));
  json.key("isa").value(device.isa()).key("entries").value(speed.num_entries);
  json.key("rows").begin_array();
  for (const Row& row : rows_of(speed)) {
    json.begin_object().key("name").value(row.name).key("value").value(row.value);
    json.key("unit").value(row.unit).key("bar").value(row.bar).key("ratio").value(row.ratio());
    json.end_object();
  }
  print(json.end_array().end_object().text() + "\n");
  return 0;
}

}  // namespace

Command bench_text_command() {
  Option model = text_option("model", 'm', "DIR",
                             "A directory with a tokenizer and optionally a chat template.");
  model.key.required = true;
  Option file = text_option("file", 'f', "FILE", "The text to encode; a few megabytes.");
  file.key.required = true;
  return {.name = "bench text",
          .summary = "measures tokenizer, chat template and sampler of a model",
          .details =
              "On one thread: reading the vocabulary (bar: 60 ms for 150,000 entries), encoding "
              "and streaming text (20 MB/s), rendering 100 messages (5 ms), and drawing a token "
              "with every option on. The bar for the last is 1 % of the time that reading the "
              "weights of a model takes: 0.6 billion bfloat16 parameters, at the bandwidth "
              "measured in the same run.",
          .options = {std::move(model), std::move(file),
                      integer_option("repeats", 0, 5, "Repeats; the median is reported.", 1, 1000),
                      json_option()},
          .examples = {"lamina bench text -m model -f corpus.txt --json"},
          .run = run_text};
}

}  // namespace lamina::cli
