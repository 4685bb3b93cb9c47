#include "text/tokenizer.h"

#include <filesystem>

#include "core/error.h"
#include "core/folder_entries.h"
#include "core/printable.h"
#include "core/utf8.h"
#include "io/foreign_file.h"
#include "io/gguf_model.h"
#include "publishers/tokenizer_classes.h"
#include "text/byte_tokenizer.h"
#include "text/gguf/gguf_tokenizer.h"
#include "text/hf/tokenizer_files.h"
#include "text/hf/tokenizer_json.h"
#include "text/hf/vocab_merges.h"
#include "text/sentencepiece/sentencepiece.h"
#include "text/tiktoken/tekken.h"
#include "text/tiktoken/tiktoken.h"
#include "text/utf8_stream.h"

namespace lamina::text {
namespace fs = std::filesystem;

namespace {

// For tokens whose bytes concatenated are the text.
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
                 "token id {} is outside the vocabulary; expected 0 to {}", id, vocab_size() - 1);
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
                     "no such directory; expected a model directory with its tokenizer",
                     {"check the path"}});
}

}  // namespace

namespace {

// In the order of the search.
struct Source {
  const char* file;
  std::unique_ptr<Tokenizer> (*load)(const std::string& directory);
  bool needs_class = false;  // its rules for splitting a text depend on a class
};
constexpr Source kSources[] = {
    {"tokenizer.json", load_tokenizer_json},
    {"tokenizer.model", load_sentencepiece},
    {"tekken.json", load_tekken},
    {"ranks.tiktoken", load_tiktoken},
    {"tiktoken.model", load_tiktoken_model, true},
    {kByteTokenizerFile, load_byte_tokenizer},
    {"vocab.json", load_vocab_and_merges, true},
};

const Source* find_source(const std::string& directory) {
  std::error_code ec;
  for (const Source& source : kSources)
    if (fs::exists(directory + "/" + source.file, ec)) return &source;
  return nullptr;
}

[[noreturn]] void refuse_file(const std::string& path) {
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  throw UserError(ExitCode::checkpoint,
                  {path,
                   "is not a directory; expected a model directory with its tokenizer",
                   {find_source(folder.string())
                        ? fmt::format("give its folder, {}", folder.string())
                        : std::string("give the directory with the tokenizer of a model")}});
}

bool has_known_class(const std::string& directory) {
  const std::optional<std::string> name = TokenizerFiles(directory).class_name();
  return name && publishers::find_tokenizer_class(*name);
}

}  // namespace

std::string tokenizer_advice(const std::string& directory) {
  constexpr std::string_view kSave =
      "save the tokenizer again as tokenizer.json (transformers' "
      "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR))";
  if (const Source* source = find_source(directory))
    return fmt::format(
        "'{}' exists, but 'tokenizer_class' in tokenizer_config.json is not a class whose "
        "rules lamina has: {}",
        source->file, kSave);
  if (!io::hub_snapshot(directory).empty()) return io::contents_in_words(directory);
  for (const auto& entry : folder_entries(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".tiktoken"))
      return fmt::format(
          "it has '{}', tiktoken's ranks without the rules to split a text: rename it to "
          "ranks.tiktoken and write a tiktoken.json with its pattern (\"pat_str\") and its "
          "\"special_tokens\"",
          printable(name, 60));
    if (name == "vocab.txt" || name == "merges.txt" || name == "spiece.model" ||
        name == "sentencepiece.bpe.model")
      return fmt::format("it has '{}', which lamina does not read: {}", printable(name, 60), kSave);
  }
  return "copy the tokenizer files of the model there";
}

bool has_tokenizer(const std::string& directory) {
  if (const Source* source = find_source(directory))
    return !source->needs_class || has_known_class(directory);
  if (const std::string gguf = io::gguf_in(directory); !gguf.empty())
    return has_gguf_tokenizer(gguf);
  // Last, because training may have just removed the directory.
  check_directory(directory);
  return false;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& directory) {
  check_directory(directory);
  if (const Source* source = find_source(directory)) {
    io::refuse_lfs_pointer(directory + "/" + source->file);
    return source->load(directory);
  }
  if (const std::string gguf = io::gguf_in(directory); !gguf.empty())
    return load_gguf_tokenizer(gguf);
  if (std::error_code ec; !fs::is_directory(directory, ec)) refuse_file(directory);
  ErrorText error{directory,
                  "has no tokenizer.json, tokenizer.model, tekken.json, tiktoken.model or "
                  "vocab.json; expected a model directory with its tokenizer",
                  {tokenizer_advice(directory)}};
  throw UserError(ExitCode::checkpoint, std::move(error));
}

}  // namespace lamina::text
