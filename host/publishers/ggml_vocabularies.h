// Names that GGUF files have for vocabularies and for how texts are split before byte-pair
// encoding, and what each means in the words of tokenizer.json. llama.cpp named them after the
// first model that it met them with; they say nothing about the model of the file.
#pragma once

#include <string_view>

namespace lamina::publishers {

// Values of `tokenizer.ggml.model`.
struct GgmlVocabulary {
  enum class Kind { byte_level_bpe, sentencepiece_bpe, sentencepiece_unigram };
  std::string_view name;
  Kind kind;
  // Whether a text begins with BOS where the file does not say.
  bool add_bos;
};

inline constexpr GgmlVocabulary kGgmlVocabularies[] = {
    {"gpt2", GgmlVocabulary::Kind::byte_level_bpe, false},
    {"llama", GgmlVocabulary::Kind::sentencepiece_bpe, true},
    {"t5", GgmlVocabulary::Kind::sentencepiece_unigram, false},
};

// Values of `tokenizer.ggml.pre`.
struct GgmlPreTokenizer {
  std::string_view name;
  std::string_view pattern;     // of a Split into matches; empty: that of ByteLevel
  std::string_view normalizer;  // a type of tokenizer.json, or empty
  bool single_digits = false;   // before anything else
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
};

inline constexpr std::string_view kUpTo3Digits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kOneDigit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kOneDigitAndMarks =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kCasedWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kCasedWordsOneDigit =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

inline constexpr GgmlPreTokenizer kGgmlPreTokenizers[] = {
    {.name = "gpt-2"},
    {.name = "olmo"},
    {.name = "starcoder", .single_digits = true},
    {.name = "refact", .single_digits = true},
    {.name = "smollm", .single_digits = true},
    {.name = "llama-bpe", .pattern = kUpTo3Digits, .ignore_merges = true, .add_bos = true},
    {.name = "llama3", .pattern = kUpTo3Digits, .ignore_merges = true, .add_bos = true},
    {.name = "llama-v3", .pattern = kUpTo3Digits, .ignore_merges = true, .add_bos = true},
    {.name = "dbrx", .pattern = kUpTo3Digits},
    {.name = "smaug-bpe", .pattern = kUpTo3Digits},
    {.name = "qwen2", .pattern = kOneDigit, .normalizer = "NFC"},
    {.name = "deepseek-r1-qwen", .pattern = kOneDigit, .normalizer = "NFC"},
    {.name = "qwen35", .pattern = kOneDigitAndMarks, .normalizer = "NFC"},
    {.name = "gpt-4o", .pattern = kCasedWords},
    {.name = "tekken", .pattern = kCasedWordsOneDigit, .ignore_merges = true, .add_bos = true},
};

}  // namespace lamina::publishers
