#include "text/tokenizer.h"

#include <filesystem>

#include "core/error.h"
#include "core/utf8.h"
#include "text/byte_tokenizer.h"
#include "text/tokenizer_json.h"
#include "text/utf8_stream.h"

namespace lamina::text {
namespace fs = std::filesystem;

namespace {

// For tokens whose bytes, one after the other, are the text.
class ByteStream final : public TextStream {
 public:
  ByteStream(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}
  std::string push(TokenId id) override {
    if (skip_special_ && tokenizer_.is_special(id)) return "";
    return utf8_.push(tokenizer_.token_bytes(id));
  }
  std::string finish() override { return utf8_.finish(); }

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  Utf8Stream utf8_;
};

}  // namespace

void Tokenizer::check_ids(std::span<const TokenId> ids) const {
  for (TokenId id : ids)
    if (id < 0 || id >= vocab_size())
      user_error(ExitCode::data, "decode",
                 "token id {} is outside the vocabulary; ids go from 0 to {}", id,
                 vocab_size() - 1);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  check_ids(ids);
  std::string bytes;
  for (TokenId id : ids)
    if (!skip_special || !is_special(id)) bytes += token_bytes(id);
  return replace_invalid_utf8(bytes);
}

std::unique_ptr<TextStream> Tokenizer::stream(bool skip_special) const {
  return std::make_unique<ByteStream>(*this, skip_special);
}

namespace {

void check_directory(const std::string& directory) {
  std::error_code ec;
  if (!fs::exists(directory, ec))
    throw UserError(ExitCode::checkpoint,
                    {directory,
                     "there is no such directory; expected a model directory with its tokenizer",
                     {"check the path"}});
}

}  // namespace

bool has_tokenizer(const std::string& directory) {
  std::error_code ec;
  if (fs::exists(directory + "/tokenizer.json", ec) ||
      fs::exists(directory + "/" + kByteTokenizerFile, ec))
    return true;
  // Last: what training removed a moment ago had one.
  check_directory(directory);
  return false;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& directory) {
  check_directory(directory);
  std::error_code ec;
  const std::string json = directory + "/tokenizer.json";
  if (fs::exists(json, ec)) return load_tokenizer_json(directory);
  if (fs::exists(directory + "/" + kByteTokenizerFile, ec)) return load_byte_tokenizer(directory);
  ErrorText error{
      directory, "has no tokenizer.json; expected a model directory with its tokenizer", {}};
  if (fs::exists(directory + "/tokenizer.model", ec))
    error.notes.emplace_back(
        "it has a SentencePiece tokenizer.model, which lamina does not read: convert it to "
        "tokenizer.json");
  else if (fs::exists(directory + "/vocab.json", ec))
    error.notes.emplace_back(
        "it has vocab.json and merges.txt: save the tokenizer again as tokenizer.json");
  else if (fs::exists(directory + "/ranks.tiktoken", ec))
    error.notes.emplace_back(
        "it has tiktoken ranks, which lamina does not read: convert them to tokenizer.json");
  else
    error.notes.emplace_back("copy the tokenizer files of the model there, or give token ids");
  throw UserError(ExitCode::checkpoint, std::move(error));
}

}  // namespace lamina::text
