#include "train/loop/bad_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>

#include "core/error.h"
#include "core/json.h"
#include "core/json_writer.h"
#include "core/log.h"
#include "io/durable_file.h"

namespace lamina::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNonFinite = "non-finite-step-", kSpike = "spike-step-";

void write_error(JsonWriter& json, const NumericalError& error) {
  if (!error.weight.empty()) json.key("weight").value(error.weight);
  if (!error.origin) return;
  const NonFinite& origin = *error.origin;
  json.key("origin").begin_object().key("text").value(origin.text());
  json.key("microbatch").value(error.microbatch).key("op").value(origin.op).key("layer");
  origin.layer >= 0 ? json.value(origin.layer) : json.null();
  json.key("scope").value(origin.scope).key("source").value(origin.source);
  json.key("result").value(origin.result).key("element").value(origin.element);
  json.key("value").value(fmt::format("{}", origin.value));
  json.key("not_finite").value(origin.num_bad).end_object();
}

std::string text_of(std::span<const text::TokenId> ids, const text::Tokenizer& tokenizer) {
  // Rows of tokens that other programs made may contain ids that the tokenizer lacks.
  const bool known = std::ranges::all_of(
      ids, [&](text::TokenId id) { return id >= 0 && id < tokenizer.vocab_size(); });
  return known ? tokenizer.decode(ids) : "";
}

void write_row(JsonWriter& json, const BadStep& bad, std::int64_t row,
               const text::Tokenizer& tokenizer) {
  const auto length = static_cast<std::size_t>(bad.batch.tokens_per_row);
  const auto first = static_cast<std::size_t>(row) * length;
  std::vector<text::TokenId> ids;
  for (std::size_t i = first; i < first + length && bad.batch.segment_ids[i] > 0; ++i)
    ids.push_back(bad.batch.tokens[i]);
  const std::uint64_t index = bad.cursor.index + static_cast<std::uint64_t>(row);
  json.begin_object().key("epoch").value(bad.cursor.epoch + index / bad.rows_per_epoch);
  json.key("index").value(index % bad.rows_per_epoch);
  json.key("microbatch").value(row / bad.microbatch_size);
  json.key("text").value(text_of(ids, tokenizer)).key("tokens").begin_array();
  for (text::TokenId id : ids) json.value(static_cast<std::int64_t>(id));
  json.end_array().end_object();
}

std::string optional_text(const JsonValue& object, std::string_view key) {
  const JsonValue value = object.find(key);
  return value ? std::string(value.as_string()) : "";
}

BadStepRecord record_of(const JsonValue& root, bool is_spike) {
  BadStepRecord out{.step = root.at("step").as_int64(),
                    .is_spike = is_spike,
                    .loss = std::string(root.at("loss").as_string()),
                    .gradient_norm = std::string(root.at("gradient_norm").as_string()),
                    .origin = "",
                    .weight = optional_text(root, "weight"),
                    .rows = {}};
  if (const JsonValue origin = root.find("origin"))
    out.origin = fmt::format("{}; in microbatch {}", origin.at("text").as_string(),
                             origin.at("microbatch").as_int64());
  for (const JsonValue row : root.at("rows").elements())
    out.rows.push_back({row.at("epoch").as_uint64(), row.at("index").as_uint64(),
                        row.at("microbatch").as_int64(), std::string(row.at("text").as_string())});
  return out;
}

}  // namespace

std::string write_bad_step(const std::string& run, const BadStep& bad,
                           const text::Tokenizer& tokenizer) {
  JsonWriter json;
  json.begin_object().key("step").value(bad.step);
  json.key("loss").value(fmt::format("{}", bad.result.loss));
  json.key("gradient_norm").value(fmt::format("{}", bad.result.gradient_norm));
  if (bad.error) write_error(json, *bad.error);
  json.key("rows").begin_array();
  for (std::int64_t row = 0; row < bad.batch.num_rows; ++row) write_row(json, bad, row, tokenizer);
  json.end_array().end_object();
  std::string path = fmt::format("{}/{}{:08}.json", run, bad.error ? kNonFinite : kSpike, bad.step);
  try {
    io::write_durably(path, json.text() + "\n");
    return path;
  } catch (const DeviceError& e) {
    log::warning("the file about step {} is not written: {}", bad.step, e.what());
    return "";
  }
}

std::vector<BadStepRecord> read_bad_steps(const std::string& run) {
  std::vector<BadStepRecord> out;
  for (const auto& entry : fs::directory_iterator(run)) {
    const std::string path = entry.path().string(), name = entry.path().filename().string();
    const bool is_spike = name.starts_with(kSpike);
    if ((!is_spike && !name.starts_with(kNonFinite)) || !name.ends_with(".json")) continue;
    const JsonDocument json = JsonDocument::read(
        path, {.code = ExitCode::checkpoint, .max_bytes = std::size_t{512} << 20});
    out.push_back(record_of(json.root(), is_spike));
  }
  std::ranges::sort(out, {}, &BadStepRecord::step);
  return out;
}

}  // namespace lamina::train
