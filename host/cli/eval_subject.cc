#include "cli/eval_subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/plugins.h"
#include "core/error.h"
#include "data/load.h"
#include "data/text_files.h"
#include "data/token_store.h"
#include "train/resumption.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

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
    if (a.has("tokens") && tokens > *limit)
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
                      .packing = data::Packing::chunk,
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

EvalSubject open_subject(const std::string& path, const std::string& adapter,
                         const Globals& globals) {
  EvalSubject s{model::open_weights(path, plugin_catalog(globals), adapter),
                nullptr,
                nullptr,
                {},
                DType::bf16};
  s.files = s.opened.weight_files();
  s.tokenizer = text::load_tokenizer(s.opened.directory);
  return s;
}

}  // namespace

EvalSubject find_eval_subject(const Arguments& a) {
  if (a.positionals.empty() == !a.has("model"))
    throw UserError(ExitCode::usage,
                    {"eval",
                     a.has("model") ? "two models are given; keep one"
                                    : "no model is given; use -m DIR --data FILE, or RUN_DIR",
                     {}});
  const std::string& path = a.has("model") ? a.text("model") : a.positionals[0];
  const std::string adapter = a.has("adapter") ? a.text("adapter") : "";
  EvalSubject s =
      model::while_training(path, [&] { return open_subject(path, adapter, a.globals); });
  std::string run_file = run_file_of(path);
  if (a.has("data")) {
    s.rows.push_back(rows_of_files(a, *s.tokenizer, *s.opened.model));
  } else if (!run_file.empty()) {
    config::RunConfig c = train::load_written_run(run_file);
    s.dtype = c.train.dtype;
    s.rows.push_back(rows_of_run(c, *s.tokenizer, *s.opened.model));
  } else {
    throw UserError(ExitCode::usage,
                    {path,
                     "is not a run directory, so it names no validation text; give text with "
                     "--data FILE",
                     {}});
  }
  if (a.has("dtype")) s.dtype = *parse_dtype(a.text("dtype"));
  return s;
}

}  // namespace lamina::cli
