// Tokenizers of GGUF files: byte-level BPE, SentencePiece, and invalid vocabularies.
#include "text/gguf/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <variant>

#include "support/expect_error.h"
#include "support/gguf_builder.h"
#include "support/temp_dir.h"
#include "text/hf/byte_level.h"

namespace lamina::text {
namespace {

using lamina::testing::GgufBuilder;
using lamina::testing::TempDir;
using ::testing::HasSubstr;
using Ids = std::vector<TokenId>;
using Texts = std::vector<std::string>;
using Numbers = std::vector<std::uint32_t>;

std::unique_ptr<Tokenizer> load_gguf(const GgufBuilder& builder) {
  TempDir dir;
  return load_tokenizer(dir.write("m.gguf", builder.bytes()));
}

std::string gguf_error_of(const GgufBuilder& builder) {
  TempDir dir;
  const std::string path = dir.write("m.gguf", builder.bytes());
  try {
    load_tokenizer(path);
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), ExitCode::checkpoint);
    return std::string(e.what()).substr(dir.path().size() + 1);
  }
  return "accepted";
}

// 0..255 the bytes, 256 "ab", 257 "abc", 258 "<s>", 259 "<tool>".
GgufBuilder byte_level(std::string_view pre) {
  Texts tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back(byte_level_spelling(std::string(1, static_cast<char>(byte))));
  for (const char* token : {"ab", "abc", "<s>", "<tool>"}) tokens.emplace_back(token);
  Numbers types(tokens.size(), 1);
  types[258] = 3;
  types[259] = 4;
  GgufBuilder out;
  out.set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.tokens", tokens);
  out.set("tokenizer.ggml.token_type", types).set("tokenizer.ggml.merges", Texts{"a b", "ab c"});
  out.set("tokenizer.ggml.bos_token_id", 258u).set("tokenizer.ggml.eos_token_id", 258u);
  if (!pre.empty()) out.set("tokenizer.ggml.pre", pre);
  return out;
}

TEST(GgufTokenizer, ByteLevelVocabulariesMergeAndSplit) {
  const auto tokenizer = load_gguf(byte_level("gpt-2"));
  EXPECT_EQ(tokenizer->encode("abcab\n"), (Ids{257, 256, '\n'}));
  EXPECT_EQ(tokenizer->encode("<tool>ab"), (Ids{259, 256}));
  EXPECT_EQ(tokenizer->encode("<s>", {.parse_special = true}), (Ids{258}));
  EXPECT_EQ(tokenizer->decode(Ids{257, 195, 164}), "abc\xc3\xa4");
  EXPECT_EQ(tokenizer->bos_id(), 258);
  EXPECT_EQ(tokenizer->eos_id(), 258);
}

// Texts of llama.cpp. The file writes normal tokens in GPT-2's alphabet, and other tokens as text.
TEST(GgufTokenizer, OtherTokensOfByteLevelVocabulariesDecodeToTheirText) {
  Texts tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back(byte_level_spelling(std::string(1, static_cast<char>(byte))));
  for (const char* token : {"\u00e9!", "\u0120x", "\u0120y", "\u0120y"}) tokens.emplace_back(token);
  Numbers types(tokens.size(), 4);
  std::fill_n(types.begin(), 256, 1u);
  types[256] = 3;
  const auto tokenizer = load_gguf(GgufBuilder()
                                       .set("tokenizer.ggml.model", "gpt2")
                                       .set("tokenizer.ggml.pre", "gpt-2")
                                       .set("tokenizer.ggml.tokens", tokens)
                                       .set("tokenizer.ggml.token_type", types)
                                       .set("tokenizer.ggml.merges", Texts{})
                                       .set("tokenizer.ggml.bos_token_id", 256u));
  EXPECT_EQ(tokenizer->encode("\u00e9!\u0120x", {.parse_special = true}), (Ids{256, 257}));
  EXPECT_EQ(tokenizer->decode(Ids{256, 257, 258, 259}), "\u00e9!\u0120x\u0120y\u0120y");
  EXPECT_EQ(tokenizer->bos_id(), 256);
}

// Digits are separate. Spaces join the letters or the punctuation after them, and letters and
// punctuation never mix.
TEST(GgufTokenizer, DeepSeeksFirstVocabulariesSplitInStages) {
  for (const char* pre : {"deepseek-llm", "deepseek-coder"}) {
    SCOPED_TRACE(pre);
    Texts tokens, merges;
    for (int byte = 0; byte < 256; ++byte)
      tokens.push_back(byte_level_spelling(std::string(1, static_cast<char>(byte))));
    for (const char* pair : {"ab", "12", "!!", "a!", " a", " !", "a1", "\n\n", "\xa9 "}) {
      const std::string first = byte_level_spelling(std::string(1, pair[0])),
                        second = byte_level_spelling(std::string(1, pair[1]));
      tokens.push_back(first + second);
      merges.push_back(first + " " + second);
    }
    const auto tokenizer = load_gguf(GgufBuilder()
                                         .set("tokenizer.ggml.model", "gpt2")
                                         .set("tokenizer.ggml.pre", pre)
                                         .set("tokenizer.ggml.tokens", tokens)
                                         .set("tokenizer.ggml.merges", merges));
    EXPECT_EQ(tokenizer->encode("ab12"), (Ids{256, '1', '2'}));
    EXPECT_EQ(tokenizer->encode("a!!"), (Ids{'a', 258}));
    EXPECT_EQ(tokenizer->encode("1 a !"), (Ids{'1', 260, 261}));
    EXPECT_EQ(tokenizer->encode("a1\n\n"), (Ids{'a', '1', '\n', '\n'}));
    // Digits are split last: for deepseek-llm a Hebrew letter keeps the space after it.
    const Ids hebrew =
        pre == std::string_view("deepseek-llm") ? Ids{0xd7, 264, '1'} : Ids{0xd7, 0xa9, ' ', '1'};
    EXPECT_EQ(tokenizer->encode("\u05e9 1"), hebrew);
  }
}

TEST(GgufTokenizer, TheFileSaysWhetherATextBeginsWithBos) {
  const Ids with{258, 256}, without{256};
  EXPECT_EQ(load_gguf(byte_level("gpt-2"))->encode("ab"), without);
  EXPECT_EQ(load_gguf(byte_level("llama-bpe"))->encode("ab"), with);
  EXPECT_EQ(load_gguf(byte_level("gpt-2").set("tokenizer.ggml.add_bos_token", true))->encode("ab"),
            with);
  EXPECT_EQ(
      load_gguf(byte_level("llama-bpe").set("tokenizer.ggml.add_bos_token", false))->encode("ab"),
      without);
}

// 0 <unk>, 1 <s>, 2 </s>, 3 "_", 4 "a", 5 "b", 6 "ab", 7 "_ab".
GgufBuilder pieces() {
  const std::string space = "\xe2\x96\x81";
  GgufBuilder out;
  out.set("tokenizer.ggml.model", "llama");
  out.set("tokenizer.ggml.tokens",
          Texts{"<unk>", "<s>", "</s>", space, "a", "b", "ab", space + "ab"});
  out.set("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -9, -8, -8, -1, -2});
  out.set("tokenizer.ggml.token_type", Numbers{2, 3, 3, 1, 1, 1, 1, 1});
  return out;
}

TEST(GgufTokenizer, PiecesMergeByScore) {
  const auto tokenizer = load_gguf(pieces());
  EXPECT_EQ(tokenizer->encode("ab ab", {.add_special = false}), (Ids{7, 7}));
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{1, 7}));  // BOS is 1 if the file has no key for it
  EXPECT_EQ(tokenizer->decode(Ids{7, 7}), "ab ab");
  const auto without_bos = load_gguf(pieces().set("tokenizer.ggml.add_bos_token", false));
  EXPECT_EQ(without_bos->encode("ab"), (Ids{7}));
  const auto no_prefix = load_gguf(pieces().set("tokenizer.ggml.add_space_prefix", false));
  EXPECT_EQ(no_prefix->encode("ab", {.add_special = false}), (Ids{6}));
}

TEST(GgufTokenizer, RefusalsNameTheKey) {
  EXPECT_THAT(gguf_error_of(GgufBuilder().set("tokenizer.ggml.model", "bert")),
              HasSubstr("m.gguf: 'tokenizer.ggml.model' is 'bert', which lamina does not have\n"
                        "  lamina has gpt2, llama, t5"));
  EXPECT_THAT(gguf_error_of(byte_level("unheard-of")),
              HasSubstr("'tokenizer.ggml.pre' is 'unheard-of', which lamina does not have"));
  EXPECT_THAT(
      gguf_error_of(byte_level("")),
      HasSubstr("'tokenizer.ggml.pre' is missing: it names the rules for splitting a text"));
  EXPECT_THAT(gguf_error_of(byte_level("gpt-2").set("tokenizer.ggml.unknown_token_id", 260u)),
              HasSubstr("'tokenizer.ggml.unknown_token_id' is 260; expected an id from 0 to 259"));
  EXPECT_THAT(gguf_error_of(GgufBuilder()
                                .set("tokenizer.ggml.model", "llama")
                                .set("tokenizer.ggml.tokens", Texts{"a"})),
              HasSubstr("'tokenizer.ggml.scores' has 0 elements for 1 tokens"));
  EXPECT_THAT(gguf_error_of(GgufBuilder()
                                .set("tokenizer.ggml.model", "llama")
                                .set("tokenizer.ggml.tokens", Texts{"a"})
                                .set("tokenizer.ggml.token_type", Numbers{9})),
              HasSubstr("'tokenizer.ggml.token_type[0]' is 9; expected 1 to 6"));
}

TEST(GgufTokenizer, MergesMustExist) {
  const auto with_merges = [](const std::optional<Texts>& merges, const char* token = "ab") {
    Texts tokens;
    for (int byte = 0; byte < 256; ++byte)
      tokens.push_back(byte_level_spelling(std::string(1, static_cast<char>(byte))));
    tokens.emplace_back(token);
    GgufBuilder out;
    out.set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", "qwen2");
    out.set("tokenizer.ggml.tokens", tokens);
    if (merges) out.set("tokenizer.ggml.merges", *merges);
    return out;
  };
  EXPECT_EQ(gguf_error_of(with_merges({})),
            "m.gguf: 'tokenizer.ggml.merges' is missing: every byte of a text would be a token\n"
            "  convert the model again with a current converter, or use its safetensors files");
  EXPECT_THAT(gguf_error_of(with_merges(Texts{})),
              HasSubstr("'tokenizer.ggml.merges' is empty: every byte of a text would be a token"));
  EXPECT_EQ(gguf_error_of(with_merges(Texts{"a b", "a x"})),
            "m.gguf: 'tokenizer.ggml.merges[1]' merges 'ax', which is not in the vocabulary\n"
            "  vocabulary and merges must belong together: take both from one file");
  EXPECT_EQ(gguf_error_of(with_merges(Texts{"ab"})),
            "m.gguf: 'tokenizer.ggml.merges[0]' is 'ab'; expected two tokens separated by a space");
}

// As in llama.cpp: an empty token is called [EMPTY_<id>], and of equal tokens the last is used.
TEST(GgufTokenizer, TokensMayBeEqualOrEmpty) {
  Texts tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back(byte_level_spelling(std::string(1, static_cast<char>(byte))));
  for (const char* token : {"ab", "ab", "<dummy>", "<dummy>", ""}) tokens.emplace_back(token);
  Numbers types(tokens.size(), 1);
  types[258] = types[259] = 3;
  GgufBuilder gguf;
  gguf.set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", "gpt-2");
  gguf.set("tokenizer.ggml.tokens", tokens).set("tokenizer.ggml.token_type", types);
  gguf.set("tokenizer.ggml.merges", Texts{"a b"}).set("tokenizer.ggml.bos_token_id", 258u);
  const auto tokenizer = load_gguf(gguf);
  EXPECT_EQ(tokenizer->encode("ab<dummy>", {.parse_special = true}), (Ids{257, 259}));
  EXPECT_EQ(tokenizer->decode(Ids{256, 257, 258, 259, 260}), "abab<dummy><dummy>[EMPTY_260]");
  EXPECT_EQ(tokenizer->decode(Ids{258, 256}, true), "ab");
  EXPECT_EQ(tokenizer->bos_id(), 258);
}

TEST(GgufTokenizer, PiecesMayBeEqualOrEmpty) {
  const std::string space = "\xe2\x96\x81";
  GgufBuilder gguf;
  gguf.set("tokenizer.ggml.model", "llama");
  gguf.set("tokenizer.ggml.tokens",
           Texts{"<unk>", "<s>", "</s>", space, "a", "a", "<x>", "<x>", ""});
  gguf.set("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -9, -8, -8, 0, 0, 0});
  gguf.set("tokenizer.ggml.token_type", Numbers{2, 3, 3, 1, 1, 1, 3, 3, 1});
  const auto tokenizer = load_gguf(gguf);
  EXPECT_EQ(tokenizer->encode("a<x>", {.add_special = false, .parse_special = true}),
            (Ids{3, 5, 7}));
  EXPECT_EQ(tokenizer->decode(Ids{4, 5, 8}), "aa[EMPTY_8]");
}

TEST(GgufTokenizer, SeveralPiecesMayBeUnknownAndTheFileNamesTheOneOfText) {
  const std::string space = "\xe2\x96\x81";
  const auto with = [&](std::optional<std::uint32_t> unknown) {
    GgufBuilder gguf;
    gguf.set("tokenizer.ggml.model", "llama");
    gguf.set("tokenizer.ggml.tokens", Texts{"<unk>", "<s>", "</s>", space, "a", "<|other|>"});
    gguf.set("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -9, -8, 0});
    gguf.set("tokenizer.ggml.token_type", Numbers{2, 3, 3, 1, 1, 2});
    if (unknown) gguf.set("tokenizer.ggml.unknown_token_id", *unknown);
    return load_gguf(gguf);
  };
  const EncodeOptions special{.add_special = false, .parse_special = true};
  EXPECT_EQ(with({})->encode("a?<|other|>", special), (Ids{3, 4, 0, 5}));
  EXPECT_EQ(with(5)->encode("a?", special), (Ids{3, 4, 5}));
  EXPECT_EQ(with({})->spelling(5), "<|other|>");
  GgufBuilder none;
  none.set("tokenizer.ggml.model", "llama").set("tokenizer.ggml.tokens", Texts{"a"});
  none.set("tokenizer.ggml.scores", std::vector<float>{0});
  EXPECT_THAT(gguf_error_of(none),
              HasSubstr("'tokenizer.ggml.token_type' has no token of the type unknown (2)"));
}

// Ids of llama.cpp: each text between such tokens begins with a space.
TEST(GgufTokenizer, UserDefinedPiecesSplitATextFirst) {
  const std::string space = "\xe2\x96\x81";
  const auto with = [&](bool add_space_prefix) {
    GgufBuilder gguf;
    gguf.set("tokenizer.ggml.model", "llama");
    gguf.set("tokenizer.ggml.tokens",
             Texts{"<unk>", "<s>", "</s>", space, "a", "b", "ab", space + "ab", "<x>", "  "});
    gguf.set("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -9, -8, -8, -1, -2, 0, 0});
    gguf.set("tokenizer.ggml.token_type", Numbers{2, 3, 3, 1, 1, 1, 1, 1, 4, 4});
    gguf.set("tokenizer.ggml.add_space_prefix", add_space_prefix);
    return load_gguf(gguf);
  };
  const auto tokenizer = with(true);
  EXPECT_EQ(tokenizer->encode("<x>ab"), (Ids{1, 8, 7}));
  EXPECT_EQ(tokenizer->encode("ab<x>ab"), (Ids{1, 7, 8, 7}));
  EXPECT_EQ(tokenizer->encode("ab <x> ab"), (Ids{1, 7, 3, 8, 3, 7}));
  EXPECT_EQ(tokenizer->encode("a  b"), (Ids{1, 3, 4, 9, 3, 5}));
  EXPECT_EQ(with(false)->encode("ab<x>ab"), (Ids{1, 6, 8, 6}));
  const std::vector<AddedText> found = tokenizer->added_tokens();
  EXPECT_TRUE(std::ranges::any_of(
      found, [](const AddedText& token) { return token.text == "<x>" && !token.special; }));
}

// Ids of llama.cpp for models with this name, and of the published tokenizer.
TEST(GgufTokenizer, SpecialTokensOfSomeModelsIncludeTheSpaceAfterThem) {
  const std::string space = "\u2581";
  const auto with = [&](const char* name) {
    GgufBuilder gguf;
    gguf.set("tokenizer.ggml.model", "llama");
    gguf.set("tokenizer.ggml.tokens", Texts{"<unk>", "<s>", "</s>", space, "a", "<|endoftext|>",
                                            "<|user|>", "<x>", space + "a", "\n"});
    gguf.set("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -9, -8, 0, 0, 0, -1, -9});
    gguf.set("tokenizer.ggml.token_type", Numbers{2, 3, 3, 1, 1, 3, 3, 4, 1, 1});
    if (name) gguf.set("general.name", name);
    return load_gguf(gguf);
  };
  const EncodeOptions special{.add_special = false, .parse_special = true};
  for (const char* name : {"Phi3", "microsoft/Phi-3-mini-4k-instruct", "Phi 3.5 Mini Instruct"}) {
    SCOPED_TRACE(name);
    const auto tokenizer = with(name);
    EXPECT_EQ(tokenizer->encode("<|user|>\na</s> \n<x>  a", special), (Ids{6, 8, 2, 7, 8}));
    EXPECT_EQ(tokenizer->encode("<|user|>\n", special), (Ids{6}));
    EXPECT_EQ(tokenizer->encode("<s>\na<|endoftext|> a<unk> a", special),
              (Ids{1, 3, 9, 4, 5, 3, 8, 0, 3, 8}));
    EXPECT_EQ(tokenizer->encode("<x> a", {.add_special = false}), (Ids{7, 8}));
  }
  for (const char* name : {static_cast<const char*>(nullptr), "Phi-4-mini", "Llama"})
    EXPECT_EQ(with(name)->encode("<|user|>\na<x> a", special), (Ids{6, 3, 9, 4, 7, 3, 8}));
}

TEST(GgufTokenizer, SpecialTokensOfByteLevelVocabulariesIncludeTheSpaceToo) {
  const auto tokenizer = load_gguf(byte_level("gpt-2").set("general.name", "Phi-3-small"));
  EXPECT_EQ(tokenizer->encode("<tool> \nab <tool>", {.parse_special = true}),
            (Ids{259, 256, ' ', 259}));
  EXPECT_EQ(tokenizer->encode("<s> ab", {.parse_special = true}), (Ids{258, ' ', 256}));
}

// As in llama.cpp: files of the first Gemma call the end of a turn a normal token.
TEST(GgufTokenizer, EndTokensAreControlTokensWhateverTheirType) {
  for (const std::uint32_t type : {1u, 4u}) {
    GgufBuilder gguf;
    gguf.set("tokenizer.ggml.model", "llama");
    gguf.set("tokenizer.ggml.tokens",
             Texts{"<unk>", "<s>", "</s>", "\u2581", "a", "<end_of_turn>", "<other>"});
    gguf.set("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -9, -8, 0, 0});
    gguf.set("tokenizer.ggml.token_type", Numbers{2, 3, 3, 1, 1, type, 1});
    const auto tokenizer = load_gguf(gguf);
    EXPECT_EQ(tokenizer->encode("a<end_of_turn>", {.parse_special = true}), (Ids{1, 3, 4, 5}));
    EXPECT_TRUE(tokenizer->is_special(5));
    EXPECT_FALSE(tokenizer->is_special(6));
    EXPECT_EQ(tokenizer->decode(Ids{4, 5}, true), "a");
  }
  const auto bytes = [](const char* name) {
    Texts tokens;
    for (int byte = 0; byte < 256; ++byte)
      tokens.push_back(byte_level_spelling(std::string(1, static_cast<char>(byte))));
    tokens.emplace_back(name);
    return load_gguf(GgufBuilder()
                         .set("tokenizer.ggml.model", "gpt2")
                         .set("tokenizer.ggml.pre", "gpt-2")
                         .set("tokenizer.ggml.tokens", tokens)
                         .set("tokenizer.ggml.merges", Texts{}));
  };
  for (const char* name :
       {"<|im_end|>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "<|fim_pad|>"}) {
    EXPECT_EQ(bytes(name)->encode(std::string("a") + name, {.parse_special = true}),
              (Ids{'a', 256}));
    EXPECT_TRUE(bytes(name)->is_special(256));
  }
}

// Without keys for them, as in llama.cpp.
TEST(GgufTokenizer, IdsOfSpecialTokensHaveDefaults) {
  const auto ids = [](GgufBuilder gguf) {
    const auto tokenizer = load_gguf(gguf);
    return std::tuple(tokenizer->bos_id(), tokenizer->eos_id(), tokenizer->pad_id());
  };
  const auto none = std::optional<TokenId>();
  EXPECT_EQ(ids(pieces()), std::tuple(1, 2, none));
  GgufBuilder t5;
  t5.set("tokenizer.ggml.model", "t5");
  t5.set("tokenizer.ggml.tokens", Texts{"<pad>", "</s>", "<unk>", "\u2581", "a"});
  t5.set("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -9, -8});
  t5.set("tokenizer.ggml.token_type", Numbers{3, 3, 2, 1, 1});
  EXPECT_EQ(ids(t5), std::tuple(none, 1, 0));
}

// Han characters are split from other letters; llama-bpe keeps them together.
TEST(GgufTokenizer, KimisVocabularySplitsHanFromLetters) {
  const std::string han = "\xe4\xb8\xad";
  Texts tokens, merges;
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back(byte_level_spelling(std::string(1, static_cast<char>(byte))));
  const std::string first = byte_level_spelling(han.substr(0, 1)),
                    second = byte_level_spelling(han.substr(1, 1)),
                    third = byte_level_spelling(han.substr(2, 1));
  for (const std::string& token :
       {first + second, first + second + third, first + second + third + "a", std::string("bc")})
    tokens.push_back(token);
  merges = {first + " " + second, first + second + " " + third, first + second + third + " a",
            "b c"};
  GgufBuilder gguf;
  gguf.set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.tokens", tokens);
  gguf.set("tokenizer.ggml.merges", merges);
  EXPECT_EQ(
      load_gguf(GgufBuilder(gguf).set("tokenizer.ggml.pre", "llama-bpe"))->encode(han + "abc"),
      (Ids{258, 259}));
  EXPECT_EQ(load_gguf(GgufBuilder(gguf).set("tokenizer.ggml.pre", "kimi-k2"))->encode(han + "abc"),
            (Ids{257, 'a', 259}));
}

// A tokenizer key of llama.cpp besides the vocabulary, with a value that no file here has.
struct TokenizerKey {
  const char* name;
  std::variant<std::uint32_t, bool, std::string> value;
  enum { used, without_effect, refused } outcome;
};
const TokenizerKey kTokenizerKeys[] = {
    {"ggml.token_type_count", 2u, TokenizerKey::without_effect},
    {"ggml.bos_token_id", 2u, TokenizerKey::used},
    {"ggml.eos_token_id", 1u, TokenizerKey::used},
    {"ggml.padding_token_id", 2u, TokenizerKey::used},
    {"ggml.unknown_token_id", 1u, TokenizerKey::used},
    {"ggml.seperator_token_id", 1u, TokenizerKey::without_effect},
    {"ggml.cls_token_id", 1u, TokenizerKey::without_effect},
    {"ggml.mask_token_id", 1u, TokenizerKey::without_effect},
    {"ggml.fim_pre_token_id", 1u, TokenizerKey::without_effect},
    {"ggml.fim_suf_token_id", 1u, TokenizerKey::without_effect},
    {"ggml.fim_mid_token_id", 1u, TokenizerKey::without_effect},
    {"ggml.prefix_token_id", 1u, TokenizerKey::without_effect},
    {"ggml.suffix_token_id", 1u, TokenizerKey::without_effect},
    {"ggml.middle_token_id", 1u, TokenizerKey::without_effect},
    {"ggml.add_bos_token", false, TokenizerKey::used},
    {"ggml.add_eos_token", true, TokenizerKey::used},
    {"ggml.add_sep_token", true, TokenizerKey::without_effect},
    {"ggml.add_space_prefix", false, TokenizerKey::used},
    {"ggml.remove_extra_whitespaces", true, TokenizerKey::used},
    {"ggml.precompiled_charsmap", "x", TokenizerKey::refused},
    {"ggml.normalizer.lowercase", true, TokenizerKey::refused},
    {"ggml.normalizer.strip_accents", true, TokenizerKey::refused},
    {"ggml.treat_whitespace_as_suffix", true, TokenizerKey::refused},
    {"huggingface.json", "{}", TokenizerKey::without_effect},
    {"rwkv.world", "x", TokenizerKey::without_effect},
};

TEST(GgufTokenizer, KeysAreUsedOrWithoutEffectOrRefused) {
  const auto probe = [](const GgufBuilder& gguf) {
    const auto tokenizer = load_gguf(gguf);
    return std::tuple(tokenizer->encode(" ab  ab?"), tokenizer->bos_id(), tokenizer->eos_id(),
                      tokenizer->pad_id());
  };
  const auto before = probe(pieces());
  for (const TokenizerKey& key : kTokenizerKeys) {
    SCOPED_TRACE(key.name);
    GgufBuilder gguf = pieces();
    const std::string name = std::string("tokenizer.") + key.name;
    std::visit([&](const auto& value) { gguf.set(name, value); }, key.value);
    if (key.outcome == TokenizerKey::refused) {
      EXPECT_THAT(gguf_error_of(gguf), HasSubstr("'" + name + "' is "));
    } else {
      EXPECT_EQ(probe(gguf) != before, key.outcome == TokenizerKey::used);
    }
  }
}

TEST(GgufTokenizer, IsNotSavedApartFromItsFile) {
  TempDir dir;
  const std::string path = dir.write("m.gguf", pieces().bytes());
  EXPECT_USER_ERROR(static_cast<void>(load_tokenizer(path)->save(dir.path())), ExitCode::checkpoint,
                    path +
                        ": has its tokenizer in one file with the model, from which lamina "
                        "cannot save it\n"
                        "  use the tokenizer files that were published with the model");
}

}  // namespace
}  // namespace lamina::text
