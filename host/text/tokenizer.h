// Converts text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::text {

using TokenId = std::int32_t;

// Bytes of a text: [begin, end).
struct Span {
  std::size_t begin, end;
};

struct EncodeOptions {
  bool add_special = true;     // adds the BOS/EOS of the tokenizer's own template
  bool parse_special = false;  // true: "<|eot|>" in the text is that token; false: ordinary text
  bool find_added = true;      // false: finds no added token, even if it is not special
};

// A token that is found in texts before they are split.
struct AddedText {
  std::string text;
  bool special;
};

// Ids and the span of each in the text. A span covers all characters that became several tokens
// together; it is empty for ids that a template adds.
struct Encoding {
  std::vector<TokenId> ids;
  std::vector<Span> spans;
};

// Text of ids that arrive one by one; for use by one thread.
class TextStream {
 public:
  virtual ~TextStream() = default;
  // The text that is certain now: whole characters, maybe none.
  virtual std::string push(TokenId id) = 0;
  // The text held back, with U+FFFD for an incomplete character.
  virtual std::string finish() = 0;
};

// Const and safe to share between threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Any bytes are accepted; each maximal invalid part counts as U+FFFD, except for the byte
  // tokenizer, which keeps the bytes.
  virtual std::vector<TokenId> encode(std::string_view text,
                                      const EncodeOptions& options = {}) const = 0;

  // Likewise, with spans in bytes of the text, in which each invalid part counts as U+FFFD.
  virtual Encoding encode_with_spans(std::string_view text,
                                     const EncodeOptions& options = {}) const = 0;

  // The bytes of `id` in the middle of a text: a part of UTF-8, maybe a part of one character.
  // Empty for an id without a token (models often have more rows than the vocabulary has tokens).
  // Borrowed from the tokenizer.
  virtual std::string_view token_bytes(TokenId id) const = 0;

  // The vocabulary's spelling of the token; for byte-level vocabularies in their alphabet, where
  // every byte is a character. Empty if there is no token.
  virtual std::string spelling(TokenId id) const { return std::string(token_bytes(id)); }

  // True for control tokens, which decode() omits on request.
  virtual bool is_special(TokenId id) const = 0;

  // The default of the tokenizer's own implementation for special tokens in a text.
  virtual bool reads_special_tokens() const { return true; }

  virtual std::vector<AddedText> added_tokens() const { return {}; }

  // The id of a token given by its text, eg: "<|endoftext|>".
  virtual std::optional<TokenId> find_token(std::string_view text) const = 0;

  // One more than the largest id.
  virtual std::int64_t vocab_size() const = 0;
  // Likewise, without tokens that only the files beside the vocabulary have: models may lack their
  // rows.
  virtual std::int64_t num_own_ids() const { return vocab_size(); }

  virtual std::optional<TokenId> bos_id() const = 0;
  virtual std::optional<TokenId> eos_id() const = 0;
  virtual std::optional<TokenId> pad_id() const { return {}; }

  // The text of `ids`; invalid UTF-8 as U+FFFD. Throws UserError (class data) for an id that is
  // negative or at least vocab_size().
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;

  // The same text while ids arrive; borrows from the tokenizer.
  virtual std::unique_ptr<TextStream> stream(bool skip_special = false) const;

  // Writes the tokenizer's files into `directory`, so that load_tokenizer(directory) returns an
  // equal one, and returns their names. The caller makes them durable.
  virtual std::vector<std::string> save(const std::string& directory) const = 0;

 protected:
  void check_ids(std::span<const TokenId> ids) const;  // throws the errors of decode()
};

// Loads the tokenizer of a model directory: the first of tokenizer.json, tokenizer.model
// (SentencePiece), tekken.json, ranks.tiktoken, tiktoken.model, lamina_tokenizer.json (the byte
// tokenizer), vocab.json with merges.txt, and a GGUF file (io::gguf_in()). Errors (class
// checkpoint): none of these exists; a damaged file; a feature that lamina lacks, by name.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& directory);

// True if load_tokenizer() would find a file that it can read; false if the file needs the rules of
// a class that lamina does not have. Errors (class checkpoint): the directory does not exist.
bool has_tokenizer(const std::string& directory);

// Returns advice for a directory without a tokenizer that lamina reads, based on the files in it.
std::string tokenizer_advice(const std::string& directory);

// Ids 0..255 are the bytes, 256 begins a text (BOS), 257 ends one (EOS).
std::unique_ptr<Tokenizer> make_byte_tokenizer();

}  // namespace lamina::text
