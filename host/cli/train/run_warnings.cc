#include "cli/train/run_warnings.h"

#include <filesystem>

#include "core/log.h"
#include "data/find_files.h"
#include "io/weight_files.h"
#include "text/tokenizer.h"

namespace lamina::cli {
namespace {

namespace fs = std::filesystem;

bool is_preset(const config::RunConfig& c, const char* key) {
  const config::Entry* entry = c.values.find(key);
  return entry && entry->origin.kind == config::Origin::Kind::preset;
}

// JSON among the data is a sign that the form was forgotten.
void warn_of_unset_form(const config::RunConfig& c) {
  if (c.data.form != "text" || !is_preset(c, "data.form")) return;
  for (const auto* patterns : {&c.data.train, &c.data.validation})
    if (const std::string file = data::find_json_file(*patterns); !file.empty())
      return log::warning(
          "'data.form' is not set: {} is read as plain text, with its keys and quotes; set it to "
          "\"jsonl\", \"chat\" or \"preference\", or to \"text\"",
          file);
}

// Returns the directory of `model = "DIR"`, which only describes the model; "" if there is none.
std::string described_by(const config::RunConfig& c) {
  std::error_code ignored;
  return c.train.from.empty() && fs::is_directory(c.model.path, ignored) ? c.model.path : "";
}

// A vocabulary for words is a sign that the model's tokenizer was forgotten.
void warn_of_unset_tokenizer(const decoder::Model& model, const config::RunConfig& c) {
  constexpr std::int64_t kFewIds = 4096;
  if (c.data.tokenizer != "byte" || !is_preset(c, "data.tokenizer")) return;
  const std::string directory = described_by(c);
  const bool has_one = !directory.empty() && text::has_tokenizer(directory);
  if (model.vocab_size() < kFewIds && !has_one) return;
  if (c.data.form == "tokens")
    log::warning(
        "'data.tokenizer' is not set: text of the model is written as bytes; set it to the "
        "directory of the tokenizer that produced the ids, or to \"byte\"");
  else
    log::warning(
        "'data.tokenizer' is not set: text is read as bytes, with 258 of the model's {} ids; set "
        "it to {}, or to \"byte\"",
        model.vocab_size(),
        has_one ? fmt::format("\"{}\"", directory) : "a directory with a tokenizer");
}

}  // namespace

void warn_of_settings(const decoder::Model& model, const config::RunConfig& c) {
  if (c.schedule.warmup_steps > c.train.steps)  // intended when few steps are tried
    log::warning(
        "{}: 'schedule.warmup_steps' is {}, more than 'train.steps' = {}: the learning rate never "
        "reaches its peak",
        c.values.where("schedule.warmup_steps"), c.schedule.warmup_steps, c.train.steps);
  if (c.lora.rank > 0 && c.train.from.empty())
    log::warning(
        "{}: 'lora.rank' is {}, and 'train.from' is missing: the adapter is trained on random "
        "weights, which stay as they are",
        c.values.where("lora.rank"), c.lora.rank);
  if (const std::string directory = described_by(c);
      !directory.empty() && io::has_weight_set(directory))
    log::info(
        "the weights in {} are not read: training starts from random ones; train.from reads "
        "them",
        directory);
  warn_of_unset_form(c);
  warn_of_unset_tokenizer(model, c);
}

}  // namespace lamina::cli
