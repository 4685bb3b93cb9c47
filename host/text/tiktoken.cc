#include "text/tiktoken.h"

#include <charconv>

#include "core/error.h"
#include "core/json.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "text/base64.h"
#include "text/bpe_merges.h"
#include "text/pipeline.h"
#include "text/vocabulary.h"

namespace lamina::text {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;

// Byte-pair encoding where the rank of what two parts become is its id.
class RankedBpe final : public WordModel {
 public:
  RankedBpe(const std::vector<std::string_view>& tokens, const std::string& path)
      : vocabulary_(tokens, Vocabulary::Form::text, path) {
    for (std::string_view token : tokens) longest_ = std::max(longest_, token.size());
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      const auto id = find({&c, 1});
      if (!id)
        throw UserError(
            ExitCode::checkpoint,
            {path,
             fmt::format("has no token for the byte 0x{:02x}; it must have all 256", byte),
             {"copy the file again from where it was published"}});
      bytes_[byte] = *id;
    }
  }

  std::size_t num_ids() const override { return vocabulary_.num_ids(); }
  std::string_view token(TokenId id) const override { return vocabulary_.token(id); }
  std::optional<TokenId> find(std::string_view token) const override {
    return vocabulary_.find(token);
  }

  void encode(std::string_view word, TokenSink& out) const override {
    if (const auto id = find(word)) return out.add(*id, 0, word.size());  // before any merge
    if (word.size() >= FoundMerge::kNone)
      user_error(ExitCode::data, "encoding text", "a word of {} bytes; at most 4 GiB are possible",
                 word.size());
    std::vector<MergePart> parts;
    for (std::size_t i = 0; i < word.size(); ++i)
      parts.push_back(
          {bytes_[static_cast<unsigned char>(word[i])], static_cast<std::uint32_t>(i + 1)});
    merge_parts(parts, [&](const MergePart&, const MergePart& right, std::uint32_t begin) {
      // What is longer than every token is not looked up: its hash would cost its length.
      if (right.end - begin > longest_) return FoundMerge{};
      const auto id = find(word.substr(begin, right.end - begin));
      return id ? FoundMerge{static_cast<std::uint32_t>(*id), *id} : FoundMerge{};
    });
    std::size_t begin = 0;
    for (const MergePart& part : parts) {
      out.add(part.id, begin, part.end);
      begin = part.end;
    }
  }

 private:
  Vocabulary vocabulary_;
  TokenId bytes_[256] = {};
  std::size_t longest_ = 0;
};

// One line, "IQ== 0".
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
                   {"copy the file again from where it was published"}});
}

std::unique_ptr<RankedBpe> read_ranks(const std::string& path) {
  const std::string file = read_file(path, ExitCode::checkpoint, kMaxFileBytes);
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
                    .decoder = DecoderChain::byte_level(),
                    .reads_special_tokens = false});
  if (const JsonValue special = root.find("special_tokens"); special && !special.is_null())
    for (const auto& [content, id] : special.members())
      out->add_token({read_id(id, kMaxIds), std::string(content), false, false, false, false, true},
                     [&](std::string what) { id.fail(std::move(what)); });
  out->set_names(read_token_names(directory));
  return out;
}

}  // namespace lamina::text
