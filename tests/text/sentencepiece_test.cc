// SentencePiece models: encoding, decoding, and invalid files.
#include "text/sentencepiece/sentencepiece.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/sentencepiece_support.h"
#include "tokenizer_folder.h"

namespace lamina::text {
namespace {

using lamina::testing::TempDir;
using testing::SmallPiece;
using testing::SmallSentencePiece;
using Ids = std::vector<TokenId>;

const std::string kSpace = "\xe2\x96\x81";

std::unique_ptr<Tokenizer> load(const SmallSentencePiece& small) {
  return testing::load({{"tokenizer.model", small.bytes()}});
}

std::string error_of(const std::string& bytes) {
  return testing::error_of({{"tokenizer.model", bytes}});
}

// 3 "_", 4 "a", 5 "b", 6 "ab" (better than 7), 7 "_a", 8 "_ab".
SmallSentencePiece small() {
  return SmallSentencePiece().with(
      {{kSpace, -9}, {"a", -8}, {"b", -8}, {"ab", -1}, {kSpace + "a", -2}, {kSpace + "ab", -3}});
}

TEST(SentencePiece, Example) {
  const auto tokenizer = load(small());
  EXPECT_EQ(tokenizer->encode("ab"), Ids{8});
  EXPECT_EQ(tokenizer->encode("  a  b "), (Ids{7, 3, 5}));  // extra whitespace is removed
  EXPECT_EQ(tokenizer->decode(Ids{7, 3, 5}), "a b");
  EXPECT_EQ(tokenizer->encode(""), Ids{});
  EXPECT_EQ(tokenizer->encode("   "), Ids{});
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
}

TEST(SentencePiece, MergesByScoreThenFromTheLeft) {
  SmallSentencePiece pieces = small().with({{"aa", -4}});
  pieces.dummy_prefix = false;
  EXPECT_EQ(load(pieces)->encode("aaab"), (Ids{9, 6}));
  EXPECT_EQ(load(pieces)->encode("aaa"), (Ids{9, 4}));
}

TEST(SentencePiece, UnknownTextIsOnePieceOrBytes) {
  const auto tokenizer = load(small());
  EXPECT_EQ(tokenizer->encode("axyb"), (Ids{7, 0, 5}));
  EXPECT_EQ(tokenizer->decode(Ids{7, 0, 5}), "a \xe2\x81\x87 b");
  SmallSentencePiece bytes;
  bytes.byte_fallback = true;
  for (unsigned b = 0; b < 256; ++b) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", b);
    bytes.pieces.push_back({name, 0, 6});
  }
  const auto with_bytes = load(bytes);
  EXPECT_EQ(with_bytes->encode("\xc3\xa9"),
            (Ids{3 + 0xe2, 3 + 0x96, 3 + 0x81, 3 + 0xc3, 3 + 0xa9}));
  EXPECT_EQ(with_bytes->decode(Ids{3 + 0xe4, 3 + 0xbd, 3 + 0xff}),
            "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(with_bytes->token_bytes(3 + 0xe4), "\xe4");
}

TEST(SentencePiece, ControlPiecesAreTextUnlessAskedFor) {
  const auto tokenizer = load(small());
  EXPECT_EQ(tokenizer->encode("</s>", {.parse_special = true}), Ids{2});
  EXPECT_EQ(tokenizer->encode("</s>"), (Ids{3, 0}));
  EXPECT_FALSE(tokenizer->reads_special_tokens());
  EXPECT_EQ(tokenizer->decode(Ids{8, 2}), "ab");
}

TEST(SentencePiece, UserDefinedPiecesAlwaysCount) {
  for (unsigned model : {1U, 2U}) {
    SmallSentencePiece pieces = small().with({{"ba", -20, 4}});
    pieces.model = model;
    const Ids ids = load(pieces)->encode("aba");
    EXPECT_EQ(ids, (Ids{7, 9})) << model;
  }
}

// As in SentencePiece 0.2.3.
TEST(SentencePiece, UserDefinedPiecesWithASpaceNeverMatch) {
  for (unsigned model : {1U, 2U}) {
    SmallSentencePiece pieces = small().with({{"  ", 0, 4}});
    pieces.model = model;
    pieces.remove_extra = false;
    const Encoding encoding = load(pieces)->encode_with_spans("a  b");
    EXPECT_EQ(encoding.ids, (Ids{7, 3, 3, 5})) << model;
    EXPECT_EQ(encoding.spans[2].begin, 2u);
    EXPECT_EQ(encoding.spans[2].end, 3u);
  }
}

TEST(SentencePiece, UnusedPiecesComeApartAgain) {
  SmallSentencePiece pieces = small();
  pieces.pieces[8].type = 5;
  EXPECT_EQ(load(pieces)->encode("ab"), (Ids{3, 6}));
}

// As in SentencePiece 0.2.3, here and in the next test.
TEST(SentencePiece, UnusedAndControlPiecesOfOneCharacterAreUnknown) {
  const auto tokenizer = load(small().with({{"c", -8, 5}, {"d", 0, 3}}));
  EXPECT_EQ(tokenizer->encode("c"), (Ids{3, 0}));
  EXPECT_EQ(tokenizer->encode("d"), (Ids{3, 0}));
  EXPECT_EQ(tokenizer->encode("acdb"), (Ids{7, 0, 5}));
  EXPECT_EQ(tokenizer->encode("d", {.parse_special = true}), Ids{10});
}

TEST(SentencePiece, WithBytesNoPieceNeedsToBeUnknown) {
  for (unsigned model : {1U, 2U}) {
    SmallSentencePiece bytes = small();
    bytes.pieces.erase(bytes.pieces.begin());  // the ids of small() minus 1
    bytes.model = model;
    bytes.byte_fallback = true;
    for (unsigned b = 0; b < 256; ++b) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", b);
      bytes.pieces.push_back({name, 0, 6});
    }
    EXPECT_EQ(load(bytes)->encode("ab\xc3\xa9"), (Ids{7, 8 + 0xc3, 8 + 0xa9})) << model;
  }
}

TEST(SentencePiece, WhitespaceMayBeASuffix) {
  SmallSentencePiece pieces = small().with({{"b" + kSpace, -1}});
  pieces.suffix = true;
  EXPECT_EQ(load(pieces)->encode("b"), Ids{9});
}

// A character map that drops U+0001: a trie of 256 units with one string.
std::string map_without_u0001() {
  const auto number = [](std::uint32_t value) {
    std::string out(4, '\0');
    std::memcpy(out.data(), &value, 4);
    return out;
  };
  std::string out = number(1024);
  for (std::uint32_t unit : {2U << 10, 0U, 0U, 7U << 10 | 1U << 8 | 1U, 1U << 31})
    out += number(unit);
  return out + std::string(1024 - 5 * 4, '\0') + std::string(1, '\0');
}

TEST(SentencePiece, ASuffixOfATextWithoutCharactersHasASpan) {
  SmallSentencePiece pieces = small().with({{"b" + kSpace, -1}});
  pieces.suffix = true;
  pieces.character_map = map_without_u0001();
  const auto tokenizer = load(pieces);
  EXPECT_EQ(tokenizer->encode("b\x01"), Ids{9});
  EXPECT_EQ(tokenizer->encode("\x01"), Ids{3});
  const Encoding encoding = tokenizer->encode_with_spans("\x01");
  EXPECT_EQ(encoding.ids, Ids{3});
  ASSERT_EQ(encoding.spans.size(), 1u);
  EXPECT_EQ(encoding.spans[0].begin, 0u);
  EXPECT_EQ(encoding.spans[0].end, 1u);
}

TEST(SentencePiece, UnigramTakesTheBestSumOfScores) {
  SmallSentencePiece pieces = small();
  pieces.model = 1;
  EXPECT_EQ(load(pieces)->encode("ab"), Ids{8});
  pieces.pieces[8].score = -30;
  pieces.pieces[6].score = -3;
  EXPECT_EQ(load(pieces)->encode("ab"), (Ids{7, 5}));
  EXPECT_EQ(load(pieces)->encode("axyb"), (Ids{7, 0, 5}));
}

// These pieces after "<unk>", and text without normalisation.
SmallSentencePiece unigram_of(const std::vector<SmallPiece>& more) {
  SmallSentencePiece out;
  out.pieces = {{"<unk>", 0, 2}};
  out.model = 1;
  out.dummy_prefix = false;
  out.remove_extra = false;
  return out.with(more);
}

// Ids of the library, version 0.2.3, here and in the next tests.
TEST(SentencePiece, UnigramKeepsTheFirstOfTwoEqualSums) {
  const auto tokenizer = load(unigram_of({{"*", -6.42323112487793F},
                                          {"**", -7.533761024475098F},
                                          {kSpace + "*", -5.7640461921691895F}}));
  EXPECT_EQ(tokenizer->encode(" ***~~~***"), (Ids{3, 2, 0, 1, 2}));
}

TEST(SentencePiece, UnigramAddsScoresInFloat32) {
  const auto tokenizer = load(unigram_of({{"b", -4.562F}, {"bb", -7.025F}, {"ba", -1.232F}}));
  EXPECT_EQ(tokenizer->encode("ababbb"), (Ids{0, 3, 1, 2}));
}

// At a sum of 100,000 the library starts a new count.
TEST(SentencePiece, UnigramCutsARunOf10000CharactersAsTheLibrary) {
  const auto tokenizer = load(unigram_of({{"a", -12.3F}, {"aa", -24.6F}, {"aaa", -36.9F}}));
  const Ids ids = tokenizer->encode(std::string(10'000, 'a'));
  EXPECT_EQ(std::ranges::count(ids, 1), 3501);
  EXPECT_EQ(std::ranges::count(ids, 2), 1718);
  EXPECT_EQ(std::ranges::count(ids, 3), 1021);
  EXPECT_EQ(Ids(ids.begin(), ids.begin() + 9), (Ids{2, 3, 2, 3, 3, 3, 3, 3, 1}));
}

TEST(SentencePiece, UserDefinedPiecesCountTheMoreTheLongerTheyAre) {
  const auto tokenizer = load(unigram_of({{"a*", -0.1F, 4}, {"bb", -0.06F}, {"*a", -0.37F, 4}}));
  EXPECT_EQ(tokenizer->encode("*a*a*~"), (Ids{0, 1, 1, 0}));
}

TEST(SentencePiece, SpansReferToTheOriginalText) {
  const auto tokenizer = load(small());
  const Encoding e = tokenizer->encode_with_spans("  ab  a");
  ASSERT_EQ(e.ids, (Ids{8, 7}));
  EXPECT_EQ(e.spans[0].end, 4u);
  EXPECT_EQ(e.spans[1].end, 7u);
}

TEST(SentencePiece, FilesBesideItAddTokensAndSetSpecialTokens) {
  TempDir dir;
  dir.write("tokenizer.model", small().bytes());
  dir.write("added_tokens.json", R"({"<image>":9})");
  EXPECT_EQ(load_tokenizer(dir.path())->encode("ab<image>"), (Ids{8, 9}));
  EXPECT_EQ(load_tokenizer(dir.path())->vocab_size(), 10);
  dir.write(
      "tokenizer_config.json",
      R"({"add_bos_token":true,"add_eos_token":false,"bos_token":"<s>","added_tokens_decoder":)"
      R"({"1":{"content":"<s>","special":true},"10":{"content":"<tool>","special":true}}})");
  const auto tokenizer = load_tokenizer(dir.path());
  EXPECT_EQ(tokenizer->encode("ab<tool>", {.parse_special = true}), (Ids{1, 8, 10}));
  EXPECT_EQ(tokenizer->encode("ab", {.add_special = false}), Ids{8});
  EXPECT_TRUE(tokenizer->is_special(10));
}

// As in transformers.
TEST(SentencePiece, NamedTokensAreSpecial) {
  const auto tokenizer = testing::load(
      {{"tokenizer.model", small().with({{"<u>", 0, 4}}).bytes()},
       {"added_tokens.json", R"({"<e>":10,"<t>":11})"},
       {"tokenizer_config.json", R"({"eos_token":"<e>","additional_special_tokens":["<u>"]})"}});
  EXPECT_EQ(tokenizer->eos_id(), 10);
  EXPECT_EQ(tokenizer->encode("ab<e>", {.parse_special = true}), (Ids{8, 10}));
  EXPECT_EQ(tokenizer->encode("ab<t>"), (Ids{8, 11}));
  EXPECT_NE(tokenizer->encode("ab<e>"), (Ids{8, 10}));
  EXPECT_EQ(tokenizer->decode(Ids{8, 9, 10, 11}, true), "ab<t>");
}

// As in transformers.
TEST(SentencePiece, ConfigLimitsTheSpaceInFrontOfATextAndItsParts) {
  const auto with = [](const std::string& config) {
    return testing::load({{"tokenizer.model", small().bytes()}, {"tokenizer_config.json", config}});
  };
  const EncodeOptions special{.parse_special = true};
  for (const char* config : {"{}", R"({"legacy":true,"add_prefix_space":true})",
                             R"({"legacy":null,"add_prefix_space":null})"}) {
    EXPECT_EQ(with(config)->encode("ab</s>ab", special), (Ids{8, 2, 8})) << config;
    EXPECT_EQ(with(config)->encode("</s>ab", special), (Ids{2, 8})) << config;
  }
  const auto first = with(R"({"legacy":false})");
  EXPECT_EQ(first->encode("ab</s>ab", special), (Ids{8, 2, 6}));
  EXPECT_EQ(first->encode("</s>ab", special), (Ids{2, 6}));
  EXPECT_EQ(first->encode_with_spans("ab</s>ab", special).ids, (Ids{8, 2, 6}));
  const auto never = with(R"({"add_prefix_space":false})");
  EXPECT_EQ(never->encode("ab</s>ab", special), (Ids{6, 2, 6}));
}

TEST(SentencePiece, RefusesPiecesThatCannotBe) {
  const auto with = [](SmallPiece piece) { return error_of(small().with({piece}).bytes()); };
  EXPECT_THAT(with({"", 0}), ::testing::HasSubstr("piece 9 ('') is empty"));
  EXPECT_THAT(with({"\xff", 0}), ::testing::HasSubstr("is not UTF-8"));
  EXPECT_THAT(with({"x", std::numeric_limits<float>::quiet_NaN()}),
              ::testing::HasSubstr("a score that is not a finite number"));
  EXPECT_THAT(with({"ab", 0}), ::testing::HasSubstr("piece 9 ('ab') is a duplicate"));
  EXPECT_THAT(with({"<other>", 0, 2}), ::testing::HasSubstr("2 pieces of the type unknown"));
  EXPECT_THAT(with({"<0x41>", 0, 6}), ::testing::HasSubstr("byte_fallback is off"));
  EXPECT_THAT(with({"x", 0, 7}), ::testing::HasSubstr("a piece of the type 7; expected 1 to 6"));
  SmallSentencePiece bytes = small();
  bytes.byte_fallback = true;
  EXPECT_THAT(error_of(bytes.bytes()), ::testing::HasSubstr("it must have all 256"));
  SmallSentencePiece words = small();
  words.model = 3;
  EXPECT_THAT(error_of(words.bytes()), ::testing::HasSubstr("a model of words or characters"));
}

TEST(SentencePiece, AFileOfTiktokenIsNamed) {
  for (const char* file : {"IQ== 0\nIg== 1\n", "IQ== 0\r\n"})
    EXPECT_EQ(error_of(file),
              "tokenizer.model: has tiktoken's ranks, lines like \"IQ== 0\"; expected a "
              "SentencePiece model\n"
              "  use the tokenizer.json that was published with the model, or rename the file to "
              "ranks.tiktoken and write a tiktoken.json with its pattern (\"pat_str\")");
  EXPECT_THAT(error_of("IQ== x\n"), ::testing::HasSubstr("is not a SentencePiece model"));
}

TEST(SentencePiece, ADamagedFileIsNamedWithThePlace) {
  EXPECT_EQ(error_of("\x0a\x7f"),
            "tokenizer.model: is not a SentencePiece model: byte 0 has a field of 127 bytes; 0 "
            "follow\n  copy the file again from the published model");
  EXPECT_THAT(error_of(""), ::testing::HasSubstr("0 pieces of the type unknown"));
  const std::string whole = small().bytes();
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = whole.substr(0, i % 4 == 0 ? random() % whole.size() : whole.size());
    for (unsigned n = random() % 3; n > 0 && !damaged.empty(); --n)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    TempDir dir;
    dir.write("tokenizer.model", damaged);
    try {
      static_cast<void>(load_tokenizer(dir.path())->encode("ab <s> \xff xyz"));
    } catch (const UserError&) {
    }
  }
}

// A vocabulary with an unused piece has no cuts. The word is never read.
TEST(SentencePiece, AWordOfMoreThan4GiBIsRefused) {
  const SentencePieceFile file = parse_sentencepiece(small().with({{"ba", -1, 5}}).bytes(), "m");
  const auto model = make_sentencepiece_model(file, "m");
  const std::size_t size = std::numeric_limits<std::uint32_t>::max();
  void* word = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(word, MAP_FAILED);
  Ids ids;
  TokenSink sink{ids};
  EXPECT_USER_ERROR(model->encode({static_cast<const char*>(word), size}, sink), ExitCode::data,
                    "encoding text: a word of 4294967295 bytes; at most 4 GiB are possible");
  munmap(word, size);
}

}  // namespace
}  // namespace lamina::text
