// lamina eval: how well a model predicts a text.
#include <fmt/format.h>

#include <cmath>

#include "cli/commands.h"
#include "cli/eval_subject.h"
#include "cli/units.h"
#include "core/json_writer.h"
#include "decoder/call_limits.h"
#include "train/evaluate.h"
#include "weights/weights.h"

namespace lamina::cli {
namespace {

std::string as_json(const EvalSubject& subject, const train::Evaluation& e) {
  JsonWriter json(2);
  json.begin_object().key("model").value(subject.opened.directory);
  json.key("loss").value(e.loss()).key("perplexity").value(std::exp(e.loss()));
  json.key("bits_per_byte").value(e.bits_per_byte()).key("tokens").value(e.sums.num_labels);
  json.key("bytes").value(e.num_bytes).key("rows").value(e.num_rows);
  if (const std::vector<double> acceptance = e.sums.mtp_acceptance(); !acceptance.empty()) {
    json.key("mtp_acceptance").begin_array();
    for (double share : acceptance) json.value(share);
    json.end_array();
  }
  json.key("dtype").value(long_name(subject.dtype)).end_object();
  return json.text() + "\n";
}

std::string as_text(const EvalSubject& subject, const train::Evaluation& e) {
  const std::vector<double> acceptance = e.sums.mtp_acceptance();
  return fmt::format(
      "model          {}\nloss           {:.4f} nats per token\nperplexity     {:.3f}\n"
      "bits per byte  {:.4f}\n{}over           {} tokens, {} bytes, {} rows of {}\n",
      subject.opened.directory, e.loss(), std::exp(e.loss()), e.bits_per_byte(),
      acceptance.empty()
          ? ""
          : fmt::format("mtp accepted   {} of its tokens\n", percents_text(acceptance)),
      thousands_text(e.sums.num_labels), thousands_text(e.num_bytes),
      thousands_text(static_cast<std::int64_t>(e.num_rows)), subject.rows.front().tokens_per_row());
}

int run(const Arguments& a, const Machine& machine) {
  machine.use_threads(a.globals.threads);
  const EvalSubject s = find_eval_subject(a);
  const auto weights = weights::Weights::load(*s.opened.model, s.files, s.dtype, machine.backend);
  const train::Evaluation e =
      train::evaluate(*s.opened.model, weights.pointers(), s.rows.front(), *s.tokenizer, s.dtype,
                      a.integer("batch"), machine.backend);
  if (!std::isfinite(e.loss()))
    throw UserError(ExitCode::numerical,
                    {s.opened.directory,
                     fmt::format("the loss is {}", e.loss()),
                     {"are the weights damaged? `lamina ckpt verify` checks"}});
  print(a.flag("json") ? as_json(s, e) : as_text(s, e));
  return 0;
}

}  // namespace

Command eval_command() {
  Option data{.key = {.name = "data",
                      .type = Type::string,
                      .doc = "A text file, a folder or a glob; may be given several times."},
              .short_name = 'd',
              .value = "FILE",
              .repeatable = true};
  Option dtype{.key = {.name = "dtype", .type = Type::string}, .value = "TYPE"};
  dtype.key.choices = {"float32", "bfloat16"};
  dtype.key.doc = "Type to compute in. The run's for its validation text, else bfloat16.";
  Option separator{.key = {.name = "separator", .type = Type::string, .preset = Value("file")},
                   .value = "WHAT"};
  separator.key.choices = {"file", "blank_line", "line"};
  separator.key.doc = "What ends a document in the files of --data.";
  return {
      .name = "eval",
      .summary = "measures how well a model predicts a text",
      .details =
          "Prints the mean loss over every token that follows another in its document, its "
          "perplexity, and the bits per byte of text, which compares models with "
          "different tokenizers. For a model with multi-token prediction also how often each "
          "of its depths proposes the token that the model chooses. For a run without "
          "--data: on what the run held out "
          "for validation, with the newest checkpoint.",
      .options =
          {model_option(),
           adapter_option(),
           data,
           {.key = {.name = "tokens",
                    .type = Type::integer,
                    .preset = Value(512),
                    .min = 1,
                    .max = decoder::kMaxTokens,
                    .doc = "Maximum row: documents are cut into rows of that many."},
            .short_name = 'n',
            .value = "N"},
           {.key = {.name = "batch",
                    .type = Type::integer,
                    .preset = Value(8),
                    .min = 1,
                    .max = decoder::kMaxTokens,
                    .doc = "Rows computed together."},
            .short_name = 'b',
            .value = "N"},
           separator,
           dtype,
           json_option()},
      .positionals = {{.name = "RUN_DIR",
                       .doc = "A run directory or checkpoint.",
                       .required = false}},
      .examples = {"lamina eval runs/quickstart",
                   "lamina eval -m model --data book.txt --tokens 1024"},
      .run = run};
}

}  // namespace lamina::cli
