#include "text/tiktoken/tekken.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/printable.h"
#include "publishers/tokenizer_classes.h"
#include "text/hf/pipeline.h"
#include "text/tiktoken/base64.h"
#include "text/tiktoken/ranked_bpe.h"

namespace lamina::text {
namespace {

// Far above any in use: bounds the number of names that a small file can request.
constexpr std::int64_t kMaxSpecialTokens = 1 << 16;

struct Sizes {
  std::int64_t ids, special;
};

Sizes read_sizes(const JsonValue& config) {
  const auto read = [&](const char* key, std::int64_t min, std::int64_t max) {
    const JsonValue value = config.at(key);
    const std::int64_t number = value.as_int64();
    if (number < min || number > max)
      value.fail(fmt::format("must be from {} to {}, got {}", min, max, number));
    return number;
  };
  const std::int64_t ids = read("default_vocab_size", 1, kMaxIds);
  return {ids, read("default_num_special_tokens", 0, std::min(ids, kMaxSpecialTokens))};
}

// The tokens after the special ones, by id.
std::vector<std::string> read_ranked_tokens(const JsonValue& vocab, const Sizes& sizes) {
  std::vector<std::string> out(static_cast<std::size_t>(sizes.special));
  for (const JsonValue entry : vocab.elements()) {
    if (static_cast<std::int64_t>(out.size()) == sizes.ids) return out;
    const JsonValue rank = entry.at("rank"), bytes = entry.at("token_bytes");
    const std::int64_t expected = static_cast<std::int64_t>(out.size()) - sizes.special;
    if (rank.as_int64() != expected)
      rank.fail(fmt::format("is {}; expected {}: ranks are in order", rank.describe(), expected));
    auto token = base64_decode(bytes.as_string());
    if (!token || token->empty())
      bytes.fail(fmt::format("must be the bytes of a token in base64, got {}", bytes.describe()));
    out.push_back(std::move(*token));
  }
  if (static_cast<std::int64_t>(out.size()) < sizes.ids)
    vocab.fail(
        fmt::format("has {} tokens; expected at least {}, which is default_vocab_size "
                    "without the special tokens",
                    vocab.size(), sizes.ids - sizes.special));
  return out;
}

// Names by id.
std::vector<std::string> read_special_tokens(const JsonValue& root, std::int64_t count) {
  std::vector<std::string> out;
  for (std::int64_t id = 0; id < count; ++id)
    out.push_back(fmt::format(publishers::kTekkenTokenName, id));
  const JsonValue list = root.find("special_tokens");
  if (!list || list.is_null()) {
    for (std::size_t id = 0; id < std::min(out.size(), std::size(publishers::kFirstTekkenTokens));
         ++id)
      out[id] = publishers::kFirstTekkenTokens[id];
    return out;
  }
  for (const JsonValue token : list.elements()) {
    const JsonValue name = token.at("token_str");
    if (name.as_string().empty()) name.fail("is empty; a special token has a name");
    out[static_cast<std::size_t>(read_id(token.at("rank"), count))] = name.as_string();
  }
  return out;
}

}  // namespace

std::unique_ptr<Tokenizer> load_tekken(const std::string& directory) {
  const std::string path = directory + "/tekken.json";
  const JsonDocument document =
      JsonDocument::read(path, {.code = ExitCode::checkpoint, .max_bytes = std::size_t{256} << 20});
  const JsonValue root = document.root(), config = root.at("config"),
                  pattern = config.at("pattern");
  const Sizes sizes = read_sizes(config);
  const std::vector<std::string> tokens = read_ranked_tokens(root.at("vocab"), sizes);
  const std::vector<std::string_view> by_id(tokens.begin(), tokens.end());
  auto out = std::make_unique<Pipeline>(
      directory,
      PipelineParts{.normalizer = Normalizer(),
                    .splitter = Splitter(pattern.as_string(),
                                         fmt::format("{}: '{}'", pattern.where(), pattern.path()),
                                         Regex::Dialect::fancy_regex),
                    .model = std::make_unique<RankedBpe>(by_id, path),
                    .words_are_bytes = true,
                    .added_are_text = true,
                    .decoder = DecoderChain::byte_level(),
                    .reads_special_tokens = false});
  const std::vector<std::string> special = read_special_tokens(root, sizes.special);
  for (std::size_t id = 0; id < special.size(); ++id)
    out->add_token({static_cast<TokenId>(id), special[id], false, false, false, false, true},
                   [&](std::string what) {
                     user_error(ExitCode::checkpoint, path, "the id of the special token \"{}\" {}",
                                printable(special[id], 40), what);
                   });
  out->set_names({.bos = "<s>", .eos = "</s>", .pad = "<pad>", .unk = "<unk>"});
  if (const auto bos = out->bos_id()) out->set_template({.before = {*bos}, .after = {}});
  return out;
}

}  // namespace lamina::text
