// lamina eval --task text: loss of a model on a text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "cli/eval/eval_logprobs.h"
#include "cli/eval/eval_tasks.h"
#include "cli/eval/named_model.h"
#include "cli/generate/prompt.h"
#include "cli/plan/device_memory.h"
#include "cli/shell/signals.h"
#include "cli/shell/status_line.h"
#include "cli/shell/units.h"
#include "core/log.h"
#include "data/find_files.h"
#include "data/load.h"
#include "data/text_files.h"
#include "data/token_store.h"
#include "evaluation/text.h"
#include "io/manifest.h"
#include "model/results.h"
#include "train/checkpoint/checkpoint.h"
#include "train/loop/run.h"

namespace lamina::cli {
namespace {

using evaluation::RowsOfWindow;
using evaluation::TextResult;

void check_text_options(const Arguments& a) {
  if (a.has("ids") && !a.has("against"))
    throw UserError(ExitCode::usage, {"--ids", "needs --against DIR; add it", {}});
  if (a.has("ids") && a.has("data"))
    throw UserError(ExitCode::usage, {"--ids", "cannot be combined with --data", {}});
  if (a.has("ids") && a.has("separator"))
    throw UserError(ExitCode::usage,
                    {"--separator", "has no effect with --ids", {"remove one of them"}});
  if (a.has("kv-dtype") && !a.has("against"))
    throw UserError(ExitCode::usage,
                    {"--kv-dtype",
                     "needs --against DIR; add it",
                     {"the model itself may be DIR: it is compared without --kv-dtype"}});
  if (a.text("form") == "chat") {
    if (!a.has("data"))
      throw UserError(ExitCode::usage, {"--form chat", "needs --data FILE.jsonl", {}});
    for (const char* option : {"against", "stride", "separator"})
      if (a.has(option))
        throw UserError(ExitCode::usage, {fmt::format("--{}", option),
                                          "cannot be combined with --form chat",
                                          {"remove one of them"}});
  }
  if (!a.has("against")) return;
  if (!a.has("ids") && !a.has("data"))
    throw UserError(ExitCode::usage, {"--against", "needs --data FILE or --ids 1,2,3", {}});
  if (a.has("logprobs"))
    throw UserError(ExitCode::usage,
                    {"--logprobs", "cannot be combined with --against; remove one of them", {}});
}

// The documents of --data, or the one of --ids.
std::shared_ptr<const data::TokenStore> documents(const Arguments& a, const EvalSubject& s) {
  const std::int64_t vocab = s.opened.model->vocab_size();
  if (!a.has("ids")) {
    if (const std::string file = data::find_json_file(a.texts("data")); !file.empty())
      log::warning(
          "{}: is read as plain text, with its keys and quotes; --form chat scores the answers of "
          "conversations, --task choices and --task answers read other records",
          file);
    return std::make_shared<const data::TokenStore>(
        data::tokenize_files(a.texts("data"), *data::parse_separator(a.text("separator")),
                             *s.tokenizer, vocab, end_if_asked));
  }
  auto store = std::make_shared<data::TokenStore>();
  const std::vector<std::int32_t> ids = parse_ids(a.text("ids"));
  check_given_ids(ids, vocab);
  store->tokens.assign(ids.begin(), ids.end());
  store->document_begin.push_back(store->tokens.size());
  return store;
}

// Returns the number of inputs of a window: --tokens, by default at most what all models support.
std::int64_t window_tokens(const Arguments& a, const EvalSubject& s, const EvalSubject* reference) {
  std::int64_t tokens = a.integer("tokens");
  for (const auto& [name, of] : {std::pair{"the model", &s}, {"the reference", reference}}) {
    const auto limit = of ? of->opened.model->max_length() : std::nullopt;
    if (!limit || tokens <= *limit) continue;
    if (a.has("tokens"))
      throw UserError(
          ExitCode::usage,
          {"--tokens", fmt::format("got {}; {} supports at most {}", tokens, name, *limit), {}});
    tokens = *limit;
  }
  return tokens;
}

// Windows over the documents, no longer than they need.
RowsOfWindow rows_of_documents(const Arguments& a, const EvalSubject& s,
                               const EvalSubject* reference) {
  const auto store = documents(a, s);
  const std::int64_t tokens = window_tokens(a, s, reference);
  const std::int64_t stride = a.has("stride") ? a.integer("stride") : tokens;
  if (stride > tokens)
    throw UserError(ExitCode::usage,
                    {"--stride",
                     fmt::format("got {}; windows of {} tokens at a larger distance would skip "
                                 "tokens",
                                 stride, tokens),
                     {fmt::format("give at most {}", tokens)}});
  RowsOfWindow rows = evaluation::windows_of(data::view_of(store), tokens, stride);
  if (rows.num_rows == 0)
    throw UserError(a.has("ids") ? ExitCode::usage : ExitCode::data,
                    {a.has("ids") ? "--ids" : a.texts("data").front(),
                     "no token follows another in its document",
                     {}});
  return rows;
}

// The next steps of errors in records, by the options that eval has.
data::NextSteps steps_on_records() {
  return {.chat_template = "give a template with --chat-template FILE",
          .chat_of_texts = "without --form chat, eval scores a file as plain text",
          .preference =
              "a preference record has two answers: give records with \"prompt\" and "
              "\"completion\"",
          .bad_record = "",
          .no_label = "--tokens sets the length of a row"};
}

// The records of --data, packed and masked as data.form = "chat" does for training.
data::Dataset rows_of_records(const Arguments& a, const EvalSubject& s) {
  config::DataSection section;
  section.form = a.text("form");
  section.train = a.texts("data");
  section.tokenizer = s.opened.directory;  // for its chat template
  if (a.has("chat-template")) section.chat_template = a.text("chat-template");
  section.sequence_length = window_tokens(a, s, nullptr);
  section.shuffle = false;
  const data::RunData data =
      data::load_data(section, 0, *s.tokenizer, s.opened.model->vocab_size(),
                      {.between = end_if_asked, .next_steps = steps_on_records()});
  if (data.counts.num_cut_documents > 0)
    log::warning("{} longer than {} tokens: {} cut off; --tokens sets the length",
                 number_of(data.counts.num_cut_documents, "document"), section.sequence_length,
                 number_of(data.counts.num_cut_tokens, "token"));
  return data.train;
}

// Warns if the files of the run have changed since the checkpoint: `lamina train` would refuse
// them.
void warn_of_changed_data(const std::string& checkpoint, const data::RunData& data) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::path(checkpoint) / io::kManifestName, ignored))
    return;
  const train::Progress then = train::read_progress(checkpoint);
  if (then.data_fingerprint.ends_with(data.validation_fingerprint)) return;
  log::warning(
      "{}: the validation data changed since step {}, so the loss cannot be compared with the "
      "losses of training; restore the files for that",
      checkpoint, then.step);
}

// The run's validation data.
data::Dataset rows_of_run(const EvalSubject& s) {
  const config::RunConfig& c = *s.run;
  if (c.data.form == "preference")
    throw UserError(
        ExitCode::usage,
        {c.file.string(),
         "holds out pairs of answers, and rejected answers should not be predicted",
         {"give text with --data; the loss of the pairs is eval/loss in metrics.jsonl"}});
  // Like a resumed run: the checkpoint has the files of train.from, which may be gone.
  const config::DataSection section =
      train::data_section(c, c.train.from.empty() ? "" : s.opened.directory);
  const data::RunData data = [&] {
    try {
      return data::load_data(section, c.run.seed, *s.tokenizer, s.opened.model->vocab_size());
    } catch (const data::NoFiles& error) {
      ErrorText text = train::with_place(c, error);
      // --data reads all of a file as text.
      const bool whole_text = c.data.form == "text" && c.data.validation_fraction == 0;
      text.notes = {whole_text
                        ? "if the files were moved, give them with --data"
                        : "restore the files there; --data FILE measures plain text instead"};
      throw UserError(ExitCode::data, std::move(text));
    }
  }();
  if (data.validation.empty())
    throw UserError(ExitCode::data,
                    {c.file.string(), "has no validation data; give text with --data", {}});
  warn_of_changed_data(s.opened.directory, data);
  return data.validation.front();
}

std::string as_json(const NamedModel& model, DType dtype, const TextResult& e) {
  JsonWriter json(2);
  json.begin_object();
  write_model(json, model);
  json.key("task").value("text");
  json.key("loss").value(e.loss()).key("perplexity").value(std::exp(e.loss()));
  json.key("bits_per_byte").value(e.bits_per_byte()).key("tokens").value(e.sums.num_labels);
  json.key("bytes").value(e.num_bytes).key("rows").value(e.num_rows);
  if (const std::vector<double> acceptance = e.sums.mtp_acceptance(); !acceptance.empty()) {
    json.key("mtp_acceptance").begin_array();
    for (double share : acceptance) json.value(share);
    json.end_array();
  }
  json.key("dtype").value(long_name(dtype)).end_object();
  return json.text() + "\n";
}

std::string as_text(const NamedModel& model, std::int64_t tokens_per_row, const TextResult& e) {
  const std::vector<double> acceptance = e.sums.mtp_acceptance();
  return fmt::format(
      "{}loss           {:.4f} nats per token\nperplexity     {:.3f}\n"
      "bits per byte  {:.4f}\n{}over           {}, {}, {} of {}\n",
      model_lines(model, 15), e.loss(), std::exp(e.loss()), e.bits_per_byte(),
      acceptance.empty()
          ? ""
          : fmt::format("mtp accepted   {} of its tokens\n", percents_text(acceptance)),
      number_of(e.sums.num_labels, "token"), number_of(e.num_bytes, "byte"),
      number_of(static_cast<std::int64_t>(e.num_rows), "row"), tokens_per_row);
}

void write_row(std::uint64_t row, const RowsOfWindow& rows, std::span<const std::int32_t> labels,
               std::span<const float> logprobs, const text::Tokenizer& tokenizer,
               LogprobsFile& file) {
  JsonWriter json;
  json.begin_object().key("row").value(row);
  if (!rows.windows.empty())
    json.key("document")
        .value(rows.windows[row].document)
        .key("first_token")
        .value(rows.windows[row].first_scored);
  add_logprobs(labels, logprobs, tokenizer, json);
  file.write_line(json.end_object());
}

}  // namespace

std::string evaluate_text(const Arguments& a, const Device& device, EvalSubject subject) {
  check_text_options(a);
  std::optional<data::Dataset> packed;
  RowsOfWindow rows;
  if (a.has("against")) {
    EvalSubject reference = find_eval_reference(a);
    rows = rows_of_documents(a, subject, &reference);
    return evaluate_against(a, device, std::move(subject), std::move(reference), rows);
  }
  if (a.text("form") == "chat") {
    packed = rows_of_records(a, subject);
    rows = evaluation::rows_of(*packed);
  } else if (a.has("data")) {
    rows = rows_of_documents(a, subject, nullptr);
  } else if (!subject.run) {
    throw UserError(ExitCode::usage,
                    {a.has("model") ? a.text("model") : a.positionals[0],
                     "is not a run directory, so it has no validation text; give text with "
                     "--data FILE",
                     {}});
  } else {
    for (const char* option : {"stride", "tokens", "separator"})
      if (a.has(option))
        throw UserError(ExitCode::usage,
                        {fmt::format("--{}", option),
                         "needs --data; the rows of a run's validation data are fixed",
                         {}});
    packed = rows_of_run(subject);
    rows = evaluation::rows_of(*packed);
  }
  const evaluation::Computing computing{.dtype = subject.dtype, .batch_rows = a.integer("batch")};
  LogprobsFile file(a);
  const model::Loaded m = std::move(subject).load(device, [&](const decoder::Model& model) {
    if (has_own_memory(device))
      check_memory(graphs_need(model, computing.dtype,
                               {evaluation::text_graph(model, rows, computing)}, device.backend()),
                   device, "eval", advice_on_memory(kFewerRows));
  });
  StatusLine status(a.globals.quiet, a.globals.color);
  evaluation::Events events{.progress = [&](std::uint64_t done, std::uint64_t total) {
    end_if_asked();
    status.show(done == total,
                [&](double s) { return count_line("evaluating", "rows", done, total, s); });
  }};
  if (file.is_wanted())
    events.scored = [&](std::uint64_t row, std::span<const std::int32_t> labels,
                        std::span<const float> logprobs) {
      write_row(row, rows, labels, logprobs, *m.tokenizer, file);
    };
  const TextResult e = evaluation::evaluate_text(m.model(), m.weights.pointers(), rows,
                                                 *m.tokenizer, computing, device.backend(), events);
  if (!std::isfinite(e.loss()))
    model::refuse_results(m, {m.opened.directory, fmt::format("the loss is {}", e.loss()), {}});
  file.commit();
  const NamedModel named = name_model(a, m.opened);
  return a.flag("json") ? as_json(named, computing.dtype, e)
                        : as_text(named, rows.tokens_per_row, e);
}

}  // namespace lamina::cli
