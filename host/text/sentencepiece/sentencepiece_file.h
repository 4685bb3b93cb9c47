// SentencePiece's tokenizer.model: a protocol buffer (ModelProto of sentencepiece_model.proto).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::text {

struct SentencePieceFile {
  enum class Type : std::uint8_t {
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6
  };
  enum class Model : std::uint8_t { unigram = 1, bpe = 2, word = 3, character = 4 };
  struct Piece {
    std::string_view text;  // borrowed from `bytes`
    float score = 0;
    Type type = Type::normal;
    bool includes_space = false;  // after it, if a text is split at it; only in other formats
  };

  std::string bytes;  // the file
  std::vector<Piece> pieces;
  bool may_repeat = false;  // pieces may be equal; a lookup finds the last of them
  Model model = Model::unigram;
  bool byte_fallback = false;
  bool treat_whitespace_as_suffix = false;
  std::string_view unknown_surface = " \xe2\x81\x87 ";  // U+2047
  std::int64_t bos_id = 1, eos_id = 2, pad_id = -1;
  std::string_view character_map;
  bool add_dummy_prefix = true;
  bool prefixes_every_part = true;  // of a text between added tokens, not only the first part
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  // A text is split at user-defined pieces before anything else, as in llama.cpp. SentencePiece
  // finds them while it encodes.
  bool splits_at_user_defined = false;
};

// Errors (class checkpoint): an invalid file, with the position; pieces that are empty, duplicate
// or not UTF-8; a score that is not a number; no unknown piece (without byte pieces), or several;
// byte pieces that are missing or not enabled; models other than BPE and Unigram; a file of
// tiktoken (read only).
SentencePieceFile read_sentencepiece(const std::string& path);
SentencePieceFile parse_sentencepiece(std::string bytes, const std::string& path);

// Throws the error of a piece, or of all pieces together.
using RefusePiece = std::function<void(std::optional<std::size_t> piece, std::string what)>;

// Copies a vocabulary of another format, in which pieces may be equal; byte_fallback is on if it
// has bytes. Errors: the errors of pieces above, through `refuse`.
SentencePieceFile make_sentencepiece_file(const std::vector<SentencePieceFile::Piece>& pieces,
                                          const RefusePiece& refuse);

}  // namespace lamina::text
