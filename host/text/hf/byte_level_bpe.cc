#include "text/hf/byte_level_bpe.h"

#include "core/error.h"
#include "core/json.h"
#include "core/json_writer.h"
#include "text/bpe.h"

namespace lamina::text {
namespace {

using publishers::GgmlPreTokenizer;

// The rules as JSON in the form of tokenizer.json.
std::string rules_json(const GgmlPreTokenizer& rules, bool add_prefix_space) {
  JsonWriter json;
  json.begin_object();
  if (!rules.normalizer.empty())
    json.key("normalizer").begin_object().key("type").value(rules.normalizer).end_object();
  json.key("pre_tokenizer").begin_object().key("type").value("Sequence");
  json.key("pretokenizers").begin_array();
  if (rules.single_digits)
    json.begin_object()
        .key("type")
        .value("Digits")
        .key("individual_digits")
        .value(true)
        .end_object();
  for (std::string_view pattern : rules.patterns) {
    if (pattern.empty()) break;
    json.begin_object().key("type").value("Split").key("behavior").value("Isolated");
    json.key("pattern").begin_object().key("Regex").value(pattern).end_object();
    json.key("invert").value(false).end_object();
  }
  json.begin_object().key("type").value("ByteLevel");
  json.key("add_prefix_space").value(add_prefix_space);
  json.key("use_regex").value(rules.patterns[0].empty()).end_object();
  json.end_array().end_object();
  return json.end_object().text();
}

}  // namespace

std::unique_ptr<Pipeline> make_byte_level_bpe(ByteLevelBpe parts) {
  const std::string where = fmt::format("{}: rules '{}'", parts.source, parts.rules.name);
  const JsonDocument rules = JsonDocument::parse(rules_json(parts.rules, parts.add_prefix_space),
                                                 where, {.code = ExitCode::checkpoint});
  return std::make_unique<Pipeline>(
      parts.source, PipelineParts{.normalizer = Normalizer(rules.root().find("normalizer")),
                                  .splitter = Splitter(rules.root().at("pre_tokenizer"), where,
                                                       Splitter::Bytes::as_they_are),
                                  .model = std::make_unique<Bpe>(std::move(parts.vocabulary),
                                                                 std::move(parts.merges),
                                                                 parts.rules.ignore_merges),
                                  .words_are_bytes = true,
                                  .added_are_text = parts.added_are_text,
                                  .decoder = DecoderChain::byte_level(),
                                  .reads_special_tokens = parts.reads_special_tokens});
}

}  // namespace lamina::text
