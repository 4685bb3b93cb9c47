#include "text/tiktoken/tiktoken.h"

#include <charconv>
#include <map>

#include "core/error.h"
#include "core/json.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "publishers/tokenizer_classes.h"
#include "text/hf/pipeline.h"
#include "text/tiktoken/base64.h"
#include "text/tiktoken/ranked_bpe.h"
#include "text/vocabulary.h"

namespace lamina::text {
namespace {

constexpr std::size_t kMaxRankFileBytes = std::size_t{256} << 20;

// Parses one line, "IQ== 0".
std::pair<std::string, std::int64_t> read_line(std::string_view line, const std::string& where) {
  const std::size_t space = line.find(' ');
  std::int64_t rank = -1;
  const auto bytes = base64_decode(line.substr(0, space));
  if (space != line.npos && bytes && !bytes->empty()) {
    const char* end = line.data() + line.size();
    const auto [stop, error] = std::from_chars(line.data() + space + 1, end, rank);
    if (error == std::errc() && stop == end && rank >= 0 && rank < kMaxIds) return {*bytes, rank};
  }
  throw UserError(ExitCode::checkpoint,
                  {where,
                   fmt::format("'{}' is not a token in base64 and its rank, from 0 to {}, eg "
                               "\"IQ== 0\"",
                               printable(line, 40), kMaxIds - 1),
                   {"copy the published file again"}});
}

std::unique_ptr<RankedBpe> read_ranks(const std::string& path) {
  const std::string file = read_file(path, ExitCode::checkpoint, kMaxRankFileBytes);
  std::vector<std::string> tokens;
  std::size_t number = 0;
  for (std::string_view rest = file; !rest.empty();) {
    const std::size_t length = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, length);
    rest.remove_prefix(std::min(length + 1, rest.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", path, number);
    auto [bytes, rank] = read_line(line, where);
    const auto id = static_cast<std::size_t>(rank);
    if (tokens.size() <= id) tokens.resize(id + 1);
    if (!tokens[id].empty())
      throw UserError(ExitCode::checkpoint,
                      {where, fmt::format("has the rank {} a second time", rank), {}});
    tokens[id] = std::move(bytes);
  }
  return std::make_unique<RankedBpe>(std::vector<std::string_view>(tokens.begin(), tokens.end()),
                                     path);
}

}  // namespace

std::unique_ptr<Tokenizer> load_tiktoken(const std::string& directory) {
  const std::string path = directory + "/tiktoken.json";
  const JsonDocument document = JsonDocument::read(path, {.code = ExitCode::checkpoint});
  const JsonValue root = document.root(), pattern = root.at("pat_str");
  auto out = std::make_unique<Pipeline>(
      directory,
      PipelineParts{.normalizer = Normalizer(),
                    .splitter = Splitter(pattern.as_string(),
                                         fmt::format("{}: '{}'", pattern.where(), pattern.path()),
                                         Regex::Dialect::fancy_regex),
                    .model = read_ranks(directory + "/ranks.tiktoken"),
                    .words_are_bytes = true,
                    .added_are_text = true,
                    .decoder = DecoderChain::byte_level(),
                    .reads_special_tokens = false});
  if (const JsonValue special = root.find("special_tokens"); special && !special.is_null())
    for (const auto& [content, id] : special.members())
      out->add_token({read_id(id, kMaxIds), std::string(content), false, false, false, false, true},
                     [&](std::string what) { id.fail(std::move(what)); });
  out->set_names(TokenizerFiles(directory).names());
  return out;
}

std::unique_ptr<Tokenizer> load_tiktoken_model(const std::string& directory) {
  const std::string path = directory + "/tiktoken.model";
  const TokenizerFiles files(directory);
  const std::string name = files.class_name().value_or("");
  const publishers::TokenizerClass* known = publishers::find_tokenizer_class(name);
  if (!known)
    throw UserError(ExitCode::checkpoint,
                    {path,
                     name.empty() ? "has only ranks, and no 'tokenizer_class' in "
                                    "tokenizer_config.json gives the rules to split a text"
                                  : fmt::format("has the class '{}', whose rules for splitting a "
                                                "text lamina does not have",
                                                printable(name, 60)),
                     {"save the tokenizer as tokenizer.json, or as ranks.tiktoken with a "
                      "tiktoken.json that has its pattern (\"pat_str\")"}});
  std::unique_ptr<RankedBpe> model = read_ranks(path);
  const auto first_special = static_cast<std::int64_t>(model->num_ids());
  auto out = std::make_unique<Pipeline>(
      directory,
      PipelineParts{.normalizer = Normalizer(),
                    .splitter = Splitter(publishers::splitting_rules(known->rules).patterns[0],
                                         path, Regex::Dialect::fancy_regex),
                    .model = std::move(model),
                    .words_are_bytes = true,
                    .added_are_text = true,
                    .decoder = DecoderChain::byte_level()});
  std::map<std::int64_t, AddedToken> tokens;
  for (int i = 0; i < publishers::kNumReservedTokens; ++i) {
    const auto id = static_cast<TokenId>(first_special + i);
    tokens[id] = {id,  fmt::format(publishers::kReservedTokenName, id), false, false, false, false,
                  true};
  }
  for (AddedToken& token : files.added_tokens()) {
    token.normalized = false;  // the class searches for all of them in the unchanged text
    tokens.insert_or_assign(token.id, std::move(token));
  }
  for (const auto& [id, token] : tokens)
    out->add_token(token, [&](std::string what) {
      user_error(ExitCode::checkpoint, directory + "/tokenizer_config.json",
                 "the id of the added token \"{}\" {}", printable(token.content, 40), what);
    });
  out->set_names(files.names());
  return out;
}

}  // namespace lamina::text
