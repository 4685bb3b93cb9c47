#include "text/hf/tokenizer_json.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "core/json.h"
#include "core/printable.h"
#include "text/bpe.h"
#include "text/hf/byte_level.h"
#include "text/hf/pipeline.h"
#include "text/hf/tokenizer_files.h"
#include "text/hf/word_level.h"
#include "text/sentencepiece/unigram.h"

namespace lamina::text {
namespace {

const JsonOptions kJsonOptions = {.code = ExitCode::checkpoint,
                                  .max_bytes = std::size_t{256} << 20};

enum class ModelKind { bpe, unigram, word_level };

ModelKind kind_of(const JsonValue& model) {
  const JsonValue type = model.find("type");
  if (!type)  // in older files
    return model.at("vocab").is_array() ? ModelKind::unigram
           : model.find("merges")       ? ModelKind::bpe
                                        : ModelKind::word_level;
  if (type.as_string() == "BPE") return ModelKind::bpe;
  if (type.as_string() == "Unigram") return ModelKind::unigram;
  if (type.as_string() == "WordLevel") return ModelKind::word_level;
  type.fail(fmt::format("is {}, a model that lamina does not have", type.describe()),
            {"it has BPE, Unigram and WordLevel"});
}

PipelineParts read_parts(const JsonValue& root, const std::string& file) {
  const JsonValue model = root.at("model"), pre_tokenizer = root.find("pre_tokenizer");
  const ModelKind kind = kind_of(model);
  const bool bytes = kind == ModelKind::bpe && Splitter::ends_with_byte_level(pre_tokenizer) &&
                     !Bpe::needs_characters(model);
  PipelineParts parts{
      .normalizer = Normalizer(root.find("normalizer")),
      .splitter = Splitter(pre_tokenizer, file,
                           bytes ? Splitter::Bytes::as_they_are : Splitter::Bytes::spelled),
      .model = nullptr,
      .words_are_bytes = bytes,
      .decoder = DecoderChain(root.find("decoder")),
  };
  switch (kind) {
    case ModelKind::bpe:
      parts.model =
          std::make_unique<Bpe>(model, bytes ? Bpe::Symbols::bytes : Bpe::Symbols::characters);
      break;
    case ModelKind::unigram:
      parts.model = std::make_unique<Unigram>(model);
      break;
    case ModelKind::word_level:
      parts.model = std::make_unique<WordLevel>(model);
      break;
  }
  return parts;
}

AddedToken read_added_token(const JsonValue& json) {
  const auto flag = [&json](std::string_view key, bool absent) {
    const JsonValue value = json.find(key);
    return value ? value.as_bool() : absent;
  };
  AddedToken token{read_id(json.at("id"), kMaxIds), std::string(json.at("content").as_string()),
                   flag("single_word", false),      flag("lstrip", false),
                   flag("rstrip", false),           false,
                   flag("special", false)};
  token.normalized = flag("normalized", !token.special);
  return token;
}

// Adds the tokens of the file and of the files beside it, as transformers does. The config's flags
// count, but a special token stays special. A name makes a token of the file special, unless the
// config lists added tokens without it. A token that only the files beside have gets the id of the
// vocabulary, else the next one.
void add_tokens(const JsonValue& root, const TokenizerFiles& files, Pipeline& out) {
  const SpecialTokens special = files.special_tokens();
  const std::optional<std::vector<AddedToken>> config = files.config_tokens();
  std::unordered_map<std::string_view, const AddedToken*> in_config;
  if (config)
    for (const AddedToken& token : *config) in_config.emplace(token.content, &token);
  const auto is_named = [&special](const std::string& content) {
    return std::ranges::find(special.named, content, &AddedToken::content) != special.named.end();
  };
  if (const JsonValue added = root.find("added_tokens"); added && !added.is_null())
    for (const JsonValue json : added.elements()) {
      AddedToken token = read_added_token(json);
      if (const auto same = in_config.find(token.content); same != in_config.end()) {
        AddedToken changed = *same->second;
        changed.id = token.id;
        changed.special = changed.special || token.special;
        token = std::move(changed);
      }
      token.special = token.special || (!config && is_named(token.content));
      out.add_token(std::move(token),
                    [&](std::string what) { json.at("id").fail(std::move(what)); });
    }
  out.set_own_ids(out.vocab_size());
  for (AddedToken token : config ? *config : files.added_tokens()) {
    if (token.content.empty() || out.has_added(token.content)) continue;
    token.id = out.find_spelt(token.content).value_or(static_cast<TokenId>(out.vocab_size()));
    const std::string content = token.content;
    out.add_token(std::move(token), [&](std::string what) {
      user_error(ExitCode::checkpoint, files.directory() + "/tokenizer_config.json",
                 "the id of the added token \"{}\" {}", printable(content, 40), what);
    });
  }
  for (const auto& tokens : {special.named, special.listed})
    for (const AddedToken& token : tokens) out.add_named(token);
}

// True if a vocabulary of all bytes has tokens but no merges that make them: a text would become
// single bytes.
bool lacks_merges(const JsonValue& root) {
  const JsonValue model = root.at("model");
  if (kind_of(model) != ModelKind::bpe || model.at("merges").size() > 0 ||
      !Splitter::ends_with_byte_level(root.find("pre_tokenizer")))
    return false;
  const JsonValue whole_words = model.find("ignore_merges");
  if (whole_words && !whole_words.is_null() && whole_words.as_bool()) return false;
  std::unordered_set<std::string_view> found_otherwise;
  if (const JsonValue added = root.find("added_tokens"); added && !added.is_null())
    for (const JsonValue token : added.elements())
      found_otherwise.insert(token.at("content").as_string());
  if (const JsonValue unknown = model.find("unk_token"); unknown && !unknown.is_null())
    found_otherwise.insert(unknown.as_string());
  std::size_t num_bytes = 0, num_merged = 0;
  for (const auto& [token, id] : model.at("vocab").members()) {
    if (found_otherwise.contains(token)) continue;
    const std::size_t size = byte_level_bytes(token).value_or("").size();
    num_bytes += size == 1;
    num_merged += size > 1;
  }
  return num_bytes == 256 && num_merged > 0;
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer_json(const std::string& directory) {
  const std::string file = directory + "/tokenizer.json";
  const JsonDocument document = JsonDocument::read(file, kJsonOptions);
  const JsonValue root = document.root();
  const TokenizerFiles files(directory);
  PipelineParts parts = read_parts(root, file);
  parts.reads_special_tokens = !files.flag_of("split_special_tokens").value_or(false);
  auto out = std::make_unique<Pipeline>(directory, std::move(parts));
  if (lacks_merges(root))
    root.at("model").at("merges").fail(
        "is empty, but the vocabulary has tokens of several bytes: every byte of a text would be a "
        "token",
        {"save the tokenizer again with its merges; \"ignore_merges\": true takes whole words"});
  add_tokens(root, files, *out);
  out->set_template(read_post_processor(root.find("post_processor"), out->vocab_size()));
  out->set_names(files.names());
  if (kind_of(root.at("model")) != ModelKind::bpe)
    out->set_cleans_up_spaces(files.flag_of("clean_up_tokenization_spaces").value_or(false));
  return out;
}

}  // namespace lamina::text
