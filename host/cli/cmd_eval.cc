// lamina eval: how well a model predicts a text.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "backends/cpu/backend.h"
#include "cli/commands.h"
#include "cli/compute.h"
#include "cli/open_model.h"
#include "cli/units.h"
#include "core/json_writer.h"
#include "core/log.h"
#include "data/load.h"
#include "data/text_files.h"
#include "data/token_store.h"
#include "decoder/call_limits.h"
#include "decoder/weights.h"
#include "train/eval_step.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

struct Subject {
  OpenedModel opened;
  std::shared_ptr<const io::WeightFiles> files;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::vector<data::Dataset> rows;  // one
  DType dtype = DType::bf16;
};

// The run file that belongs to a run directory or a checkpoint; "" if there is none.
std::string run_file_of(const std::string& path) {
  for (const char* name : {"config.toml", "run.toml"})
    if (fs::is_regular_file(fs::path(path) / name)) return (fs::path(path) / name).string();
  return "";
}

// Files of --data: documents cut into rows, none dropped; rows no longer than the text needs.
data::Dataset rows_of_files(const Arguments& a, const text::Tokenizer& tokenizer,
                            const decoder::Model& model) {
  auto store = std::make_shared<const data::TokenStore>(data::tokenize_files(
      a.texts("data"), *data::parse_separator(a.text("separator")), tokenizer, model.vocab_size()));
  std::int64_t tokens = a.integer("tokens");
  if (auto limit = model.config().max_positions()) {
    if (a.given("tokens") && tokens > *limit)
      throw UserError(ExitCode::usage,
                      {"--tokens",
                       fmt::format("got {}; the model was made for at most {}", tokens, *limit),
                       {}});
    tokens = std::min(tokens, *limit);
  }
  std::int64_t longest = 1;
  for (std::size_t i = 0; i + 1 < store->document_begin.size(); ++i)
    longest = std::max(
        longest,
        static_cast<std::int64_t>(store->document_begin[i + 1] - store->document_begin[i]) - 1);
  return data::split(store, 0,
                     {.tokens_per_row = std::min(tokens, longest),
                      .packing = {.packing = data::Packing::chunk},
                      .shuffle = false})
      .train;
}

// What the run of `path` kept back for validation.
data::Dataset rows_of_run(const config::RunConfig& c, const text::Tokenizer& tokenizer,
                          const decoder::Model& model) {
  data::RunData data = data::load_data(c.data, c.run.seed, tokenizer, model.vocab_size());
  if (data.validation.empty())
    throw UserError(
        ExitCode::data,
        {c.file.string(), "holds out nothing for validation; give text with --data", {}});
  return data.validation.front();
}

Subject open_subject(const std::string& path, const Globals& globals) {
  Subject s{open_weights(path, globals), nullptr, nullptr, {}, DType::bf16};
  s.files = std::make_shared<const io::WeightFiles>(s.opened.directory);
  s.tokenizer = text::load_tokenizer(s.opened.directory);
  return s;
}

Subject find_subject(const Arguments& a) {
  if (a.positionals.empty() == !a.given("model"))
    throw UserError(ExitCode::usage,
                    {"eval",
                     a.given("model") ? "two models are given; keep one"
                                      : "no model is given; use -m DIR --data FILE, or RUN_DIR",
                     {}});
  const std::string& path = a.given("model") ? a.text("model") : a.positionals[0];
  Subject s = while_training(path, [&] { return open_subject(path, a.globals); });
  std::string run_file = run_file_of(path);
  if (a.given("data")) {
    s.rows.push_back(rows_of_files(a, *s.tokenizer, *s.opened.model));
  } else if (!run_file.empty()) {
    config::RunConfig c = load_written_run(run_file);
    s.dtype = c.train.dtype;
    s.rows.push_back(rows_of_run(c, *s.tokenizer, *s.opened.model));
  } else {
    throw UserError(ExitCode::usage,
                    {path,
                     "is not a run directory, so it names no validation text; give text with "
                     "--data FILE",
                     {}});
  }
  if (a.given("dtype")) s.dtype = *parse_dtype(a.text("dtype"));
  return s;
}

struct Evaluation {
  train::EvalSums sums;
  std::int64_t num_bytes = 0;  // of the text that the labels stand for
  std::uint64_t num_rows = 0;

  double loss() const { return sums.mean_loss(); }
  double bits_per_byte() const {
    return num_bytes ? sums.loss / std::log(2.0) / static_cast<double>(num_bytes) : 0;
  }
};

Evaluation evaluate(const Subject& s, std::int64_t batch_rows) {
  const Backend& backend = cpu::cpu_backend();
  const data::Dataset& rows = s.rows.front();
  batch_rows = std::min<std::int64_t>(batch_rows, static_cast<std::int64_t>(rows.num_rows()));
  decoder::Weights weights = decoder::Weights::load(*s.opened.model, s.files, s.dtype, backend);
  train::EvalStep step(*s.opened.model, batch_rows, rows.tokens_per_row(), s.dtype, true, backend);
  Evaluation out{.num_rows = rows.num_rows()};
  data::DataCursor cursor;
  data::Batch batch;
  for (std::uint64_t done = 0; done < rows.num_rows(); done += batch.num_rows) {
    rows.next(cursor, batch_rows, batch);
    // The last batch is filled up with rows that have been counted already.
    std::uint64_t wanted = std::min<std::uint64_t>(batch.num_rows, rows.num_rows() - done);
    std::fill(batch.labels.begin() + static_cast<std::ptrdiff_t>(wanted) * batch.tokens_per_row,
              batch.labels.end(), data::kIgnoredLabel);
    out.sums += step.run({batch.tokens.data(), batch.labels.data(), batch.positions.data(),
                          batch.segment_ids.data()},
                         weights.pointers());
    for (std::int32_t label : batch.labels)
      if (label >= 0)
        out.num_bytes += static_cast<std::int64_t>(s.tokenizer->token_bytes(label).size());
    log::debug("{} of {} rows, loss so far {:.4f}", done + wanted, rows.num_rows(), out.loss());
  }
  return out;
}

int run(const Arguments& a) {
  apply_threads(a.globals);
  Subject subject = find_subject(a);
  Evaluation e = evaluate(subject, a.integer("batch"));
  if (!std::isfinite(e.loss()))
    throw UserError(ExitCode::numerical,
                    {subject.opened.directory,
                     fmt::format("the loss is {}", e.loss()),
                     {"are the weights damaged? `lamina ckpt verify` checks"}});
  const std::vector<double> acceptance = e.sums.mtp_acceptance();
  if (a.flag("json")) {
    JsonWriter json(2);
    json.begin_object().key("model").value(subject.opened.directory);
    json.key("loss").value(e.loss()).key("perplexity").value(std::exp(e.loss()));
    json.key("bits_per_byte").value(e.bits_per_byte()).key("tokens").value(e.sums.num_labels);
    json.key("bytes").value(e.num_bytes).key("rows").value(e.num_rows);
    if (!acceptance.empty()) {
      json.key("mtp_acceptance").begin_array();
      for (double share : acceptance) json.value(share);
      json.end_array();
    }
    json.key("dtype").value(long_name(subject.dtype)).end_object();
    print(json.text() + "\n");
    return 0;
  }
  print(
      fmt::format("model          {}\nloss           {:.4f} nats per token\nperplexity     {:.3f}\n"
                  "bits per byte  {:.4f}\n{}over           {} tokens, {} bytes, {} rows of {}\n",
                  subject.opened.directory, e.loss(), std::exp(e.loss()), e.bits_per_byte(),
                  acceptance.empty()
                      ? ""
                      : fmt::format("mtp accepted   {} of its tokens\n", percents_text(acceptance)),
                  thousands_text(e.sums.num_labels), thousands_text(e.num_bytes),
                  thousands_text(static_cast<std::int64_t>(e.num_rows)),
                  subject.rows.front().tokens_per_row()));
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
  return {.name = "eval",
          .summary = "measures how well a model predicts a text",
          .details =
              "Prints the mean loss over every token that follows another in its document, its "
              "perplexity, and the bits per byte of text, which compares models with "
              "different tokenizers. For a model with multi-token prediction also how often each "
              "of its depths proposes the token that the model chooses. For a run without "
              "--data: on what the run held out "
              "for validation, with the newest checkpoint.",
          .options = {{.key = {.name = "model",
                               .type = Type::string,
                               .doc = "A Hugging Face directory, a checkpoint or a run directory."},
                       .short_name = 'm',
                       .value = "DIR"},
                      data,
                      {.key = {.name = "tokens",
                               .type = Type::integer,
                               .preset = Value(512),
                               .min = 1,
                               .max = decoder::kMostTokens,
                               .doc = "Maximum row: documents are cut into rows of that many."},
                       .short_name = 'n',
                       .value = "N"},
                      {.key = {.name = "batch",
                               .type = Type::integer,
                               .preset = Value(8),
                               .min = 1,
                               .max = decoder::kMostTokens,
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
