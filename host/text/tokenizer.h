// Text to token ids and back.
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

// Bytes of a text, from begin to before end.
struct Span {
  std::size_t begin, end;
};

struct EncodeOptions {
  bool add_special = true;     // the BOS/EOS that the tokenizer's own template adds
  bool parse_special = false;  // whether "<|eot|>" in the text is that token or ordinary text
  bool find_added = true;      // false: no added token is, not even those that are not special
};

// A token that is found in texts before they are split.
struct AddedText {
  std::string text;
  bool special;
};

// Ids and the part of the text that each is of: where characters became several tokens, all of
// them; for ids that a template adds, nothing.
struct Encoding {
  std::vector<TokenId> ids;
  std::vector<Span> spans;
};

// Text of ids that come one by one; of one thread.
class TextStream {
 public:
  virtual ~TextStream() = default;
  // The text that is certain now: whole characters, maybe nothing.
  virtual std::string push(TokenId id) = 0;
  // What was held back, with U+FFFD where a character is cut.
  virtual std::string finish() = 0;
};

// Const and safe to share between threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Any bytes are accepted; where they are not UTF-8 each maximal broken part counts as U+FFFD,
  // except for the byte tokenizer, which keeps them.
  virtual std::vector<TokenId> encode(std::string_view text,
                                      const EncodeOptions& options = {}) const = 0;

  // Likewise, with spans in bytes of the text, in which each broken part counts as U+FFFD.
  virtual Encoding encode_with_spans(std::string_view text,
                                     const EncodeOptions& options = {}) const = 0;

  // The bytes of `id` in the middle of a text: a part of UTF-8, maybe of one character. Empty for
  // an id that has no token (models often have more rows than the vocabulary has tokens). Borrowed
  // from the tokenizer.
  virtual std::string_view token_bytes(TokenId id) const = 0;

  // How the vocabulary spells the token; for byte-level vocabularies in their alphabet, where every
  // byte is a character. Empty where there is no token.
  virtual std::string spelling(TokenId id) const { return std::string(token_bytes(id)); }

  // True for control tokens, which decode() leaves out on request.
  virtual bool is_special(TokenId id) const = 0;

  // Whether the tokenizer's own implementation reads special tokens in a text unless told
  // otherwise.
  virtual bool reads_special_tokens() const { return true; }

  virtual std::vector<AddedText> added_tokens() const { return {}; }

  // The id of a token given by its text, eg: "<|endoftext|>".
  virtual std::optional<TokenId> find_token(std::string_view text) const = 0;

  // One more than the largest id.
  virtual std::int64_t vocab_size() const = 0;

  virtual std::optional<TokenId> bos_id() const = 0;
  virtual std::optional<TokenId> eos_id() const = 0;
  virtual std::optional<TokenId> pad_id() const { return {}; }

  // The text of `ids`; broken UTF-8 as U+FFFD. A UserError (class data) for an id that is negative
  // or at least vocab_size().
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;

  // The same text as ids come; borrows from the tokenizer.
  virtual std::unique_ptr<TextStream> stream(bool skip_special = false) const;

  // Writes the tokenizer's files into `directory`, so that load_tokenizer(directory) gives the same
  // one, and returns their names. Durability is the caller's business.
  virtual std::vector<std::string> save(const std::string& directory) const = 0;

 protected:
  void check_ids(std::span<const TokenId> ids) const;  // the errors of decode()
};

// Loads the tokenizer of a model directory: the first of tokenizer.json, tokenizer.model
// (SentencePiece), tekken.json, ranks.tiktoken, tiktoken.model, lamina_tokenizer.json (the byte
// tokenizer), vocab.json with merges.txt, and a GGUF file (io::gguf_in()). Errors (class
// checkpoint): none there; damaged; a feature that lamina lacks, by name.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& directory);

// True if load_tokenizer() would find a file that it can read: not where the rules of the file are
// those of a class that lamina does not have. Errors (class checkpoint): there is no such
// directory.
bool has_tokenizer(const std::string& directory);

// Returns advice for a directory without a tokenizer that lamina reads, by the files in it.
std::string tokenizer_advice(const std::string& directory);

// Ids 0..255 are the bytes, 256 begins a text (BOS), 257 ends one (EOS).
std::unique_ptr<Tokenizer> make_byte_tokenizer();

}  // namespace lamina::text
