// Parts of tokenizer.json beyond byte-level BPE, each applied to text, with vocabularies of a few
// tokens.
#include <gtest/gtest.h>

#include "core/json_writer.h"
#include "support/expect_error.h"
#include "text/tokenizer.h"
#include "tokenizer_folder.h"

namespace lamina::text {
namespace {

using Ids = std::vector<TokenId>;

constexpr const char* kSpace = "\xe2\x96\x81";  // U+2581

// The values of the file's keys.
struct Parts {
  std::string model;
  std::string normalizer = "null";
  std::string pre_tokenizer = "null";
  std::string decoder = "null";
  std::string added_tokens = "";

  std::string json() const {
    return "{\"normalizer\":" + normalizer + ",\n\"pre_tokenizer\":" + pre_tokenizer +
           ",\n\"decoder\":" + decoder + ",\n\"added_tokens\":[" + added_tokens +
           "],\n\"model\":" + model + "}";
  }
};

std::unique_ptr<Tokenizer> load(const Parts& parts) {
  return testing::load({{"tokenizer.json", parts.json()}});
}

std::string error_of(const Parts& parts) {
  return testing::error_of({{"tokenizer.json", parts.json()}});
}

// A vocabulary of whole words, numbered from 0; 0 is unknown.
Parts words(const std::vector<std::string>& tokens) {
  std::string vocab = "\"?\":0";
  for (std::size_t i = 0; i < tokens.size(); ++i)
    vocab += "," + json_quote(tokens[i]) + ":" + std::to_string(i + 1);
  return {.model = R"({"type":"WordLevel","unk_token":"?","vocab":{)" + vocab + "}}"};
}

// Characters with byte fallback: "a", "b", "ab" and the tokens of all bytes.
Parts characters(const std::string& options = "") {
  std::string vocab =
      R"("<unk>":0,"a":1,"b":2,"ab":3,")" + std::string(kSpace) + R"(":4,")" + kSpace + R"(ab":5)";
  for (int byte = 0; byte < 256; ++byte) {
    char token[8];
    std::snprintf(token, sizeof token, "<0x%02X>", static_cast<unsigned>(byte));
    vocab += ",\"" + std::string(token) + "\":" + std::to_string(10 + byte);
  }
  return {.model = R"({"type":"BPE","unk_token":"<unk>","byte_fallback":true,"fuse_unk":true)" +
                   options + ",\"vocab\":{" + vocab + R"(},"merges":["a b",")" + kSpace +
                   R"( ab"]})",
          .normalizer = R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":")" +
                        std::string(kSpace) +
                        R"("},{"type":"Replace","pattern":{"String":" "},"content":")" + kSpace +
                        R"("}]})",
          .decoder = R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":")" +
                     std::string(kSpace) +
                     R"("},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},)"
                     R"({"type":"Strip","content":" ","start":1,"stop":0}]})"};
}

TEST(TokenizerParts, CharactersThatTheVocabularyLacksAreBytes) {
  const auto tokenizer = load(characters());
  EXPECT_EQ(tokenizer->encode("ab a"), (Ids{5, 4, 1}));
  EXPECT_EQ(tokenizer->encode("\xc3\xa9"), (Ids{4, 10 + 0xc3, 10 + 0xa9}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(" ab \xc3\xa9")), " ab \xc3\xa9");
  EXPECT_EQ(tokenizer->token_bytes(5), " ab");
  EXPECT_EQ(tokenizer->token_bytes(10 + 0xc3), "\xc3");
}

TEST(TokenizerParts, ARunOfBytesThatIsNoTextIsOneMarkForEach) {
  const auto tokenizer = load(characters());
  const Ids ids{10 + 0xe4, 10 + 0xbd, 10 + 0xa0, 10 + 0xff};
  EXPECT_EQ(tokenizer->decode(ids), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  const auto stream = tokenizer->stream();
  EXPECT_EQ(stream->push(ids[0]), "");
  EXPECT_EQ(stream->push(ids[1]), "");
  EXPECT_EQ(stream->push(ids[2]), "\xe4\xbd\xa0");
  EXPECT_EQ(stream->push(1), "a");
  EXPECT_EQ(stream->push(ids[0]), "");
  EXPECT_EQ(stream->finish(), "\xef\xbf\xbd");
}

TEST(TokenizerParts, UnknownCharactersFuse) {
  const std::string model =
      R"({"type":"BPE","unk_token":"?","fuse_unk":FUSE,"vocab":{"?":0,"a":1},"merges":[]})";
  const auto with = [&](const std::string& fuse) {
    std::string text = model;
    return load({.model = text.replace(text.find("FUSE"), 4, fuse)})->encode("axyaz");
  };
  EXPECT_EQ(with("true"), (Ids{1, 0, 1, 0}));
  EXPECT_EQ(with("false"), (Ids{1, 0, 0, 1, 0}));
}

// Ids of tokenizers 0.23. For the second file, which is artificial, its offsets are past the end of
// the text.
TEST(TokenizerParts, BytesComeBeforeUnknownCharactersThatNothingHasEnded) {
  const auto tokenizer =
      load({.model = R"({"type":"BPE","unk_token":"?","byte_fallback":true,"fuse_unk":true,)"
                     R"("vocab":{"?":0,"a":1,"<0xC3>":2,"<0xA9>":3},"merges":[]})"});
  const Encoding encoding = tokenizer->encode_with_spans("axx\xc3\xa9ya");
  EXPECT_EQ(encoding.ids, (Ids{1, 2, 3, 0, 1}));
  std::vector<std::size_t> ends;
  for (const Span& span : encoding.spans) ends.push_back(span.end);
  EXPECT_EQ(ends, (std::vector<std::size_t>{1, 2, 3, 6, 7}));
  const auto marked = load(
      {.model = R"({"type":"BPE","byte_fallback":true,"continuing_subword_prefix":"#","vocab":)"
                R"({"a":1,"<0xC3>":2,"<0xA9>":3,"<0x23>":4},"merges":[]})"});
  const Encoding longer = marked->encode_with_spans("a\xc3\xa9");
  EXPECT_EQ(longer.ids, (Ids{1, 4, 2, 3}));
  for (const Span& span : longer.spans) {
    EXPECT_LT(span.begin, span.end);
    EXPECT_LE(span.end, 3u);
  }
}

TEST(TokenizerParts, WithoutATokenForItACharacterIsRefused) {
  const auto tokenizer = load({.model = R"({"type":"BPE","vocab":{"a":0},"merges":[]})"});
  EXPECT_ERROR_SAYS(tokenizer->encode("ab"), ExitCode::data, "has no token for 'b'");
}

TEST(TokenizerParts, PrefixAndSuffixOfTheModelMarkPlacesInAWord) {
  const auto tokenizer = load(
      {.model =
           R"({"type":"BPE","continuing_subword_prefix":"##","end_of_word_suffix":"$","vocab":)"
           R"({"a":0,"##b":1,"##c$":2,"ab":3,"abc$":4},"merges":["a ##b","ab ##c$"]})"});
  EXPECT_EQ(tokenizer->encode("abc"), Ids{4});
}

// If no token contains two adjacent characters, the text is divided between them.
TEST(TokenizerParts, ALongTextWithoutWordsIsEncodedLikeItsParts) {
  const auto tokenizer = load(characters());
  std::string text;
  for (int i = 0; i < 20000; ++i) text += i % 3 == 0 ? "ab" : i % 7 == 0 ? "ba" : " ab";
  const Ids ids = tokenizer->encode(text);
  EXPECT_EQ(tokenizer->decode(ids), text);
  std::size_t pairs = 0;
  for (TokenId id : ids) pairs += id == 3 || id == 5;
  std::size_t expected = 0;
  for (std::size_t at = text.find("ab"); at != text.npos; at = text.find("ab", at + 2)) ++expected;
  EXPECT_EQ(pairs, expected);
}

TEST(TokenizerParts, UnigramTakesTheBestSumOfScores) {
  const auto tokenizer =
      load({.model = R"({"type":"Unigram","unk_id":0,"vocab":[["?",0],["a",-1],["b",-1],["ab",-3],)"
                     R"(["bc",-0.5],["c",-4]]})"});
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{1, 2}));
  EXPECT_EQ(tokenizer->encode("abc"), (Ids{1, 4}));
  EXPECT_EQ(tokenizer->encode("axyb"), (Ids{1, 0, 2}));  // unknown characters are one token
  const Encoding spans = tokenizer->encode_with_spans("axyb");
  EXPECT_EQ(spans.spans[1].begin, 1u);
  EXPECT_EQ(spans.spans[1].end, 3u);
}

// Ids of tokenizers 0.23.3, which reads the score of "b" one bit away from the nearest number. With
// that number both sums are equal, and "aaa" is first.
TEST(TokenizerParts, UnigramRoundsScoresAsTheLibrary) {
  const auto tokenizer =
      load({.model = R"({"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["a",-9.0],)"
                     R"(["aa",-6.129197829066445],["aaa",-5.606163774143026],)"
                     R"(["aaaa",-6.0258778882772015],["b",-4.6841189867068564],)"
                     R"(["c",-3.174369410213747]]})"});
  EXPECT_EQ(tokenizer->encode("cbaaaaaaa"), (Ids{6, 5, 4, 3}));
}

TEST(TokenizerParts, UnigramFallsBackToBytes) {
  const auto tokenizer = load(
      {.model = R"({"type":"Unigram","unk_id":0,"byte_fallback":true,"vocab":[["?",0],["a",-1],)"
                R"(["<0xC3>",-1],["<0xA9>",-1]]})"});
  EXPECT_EQ(tokenizer->encode("a\xc3\xa9"), (Ids{1, 2, 3}));
  EXPECT_EQ(tokenizer->encode("x"), Ids{0});
}

// The pieces of tokenizers 0.23.3 for every behavior but "Removed" with "invert".
TEST(TokenizerParts, EmptyMatchesOfAPatternCut) {
  for (const char* behavior :
       {"Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"}) {
    const auto encode = [&](const std::string& pattern) {
      Parts parts = words({"a1", "234", "567 b2", "a1234567", " ", "b2"});
      parts.pre_tokenizer = fmt::format(
          R"({{"type":"Split","pattern":{{"Regex":{}}},"behavior":"{}","invert":false}})",
          json_quote(pattern), behavior);
      return load(parts)->encode("a1234567 b2");
    };
    EXPECT_EQ(encode(R"((?=(?:\d{3})+(?!\d)))"), (Ids{1, 2, 3})) << behavior;
    EXPECT_EQ(encode(R"(\b)"), (Ids{4, 5, 6})) << behavior;
  }
}

TEST(TokenizerParts, PreTokenizersCutWords) {
  const auto encode = [](const std::string& pre_tokenizer, const std::string& text) {
    Parts parts = words({"ab", "cd", "!", "12", "1", "2", "ab!"});
    parts.pre_tokenizer = pre_tokenizer;
    return load(parts)->encode(text);
  };
  EXPECT_EQ(encode(R"({"type":"Whitespace"})", " ab\tcd!"), (Ids{1, 2, 3}));
  EXPECT_EQ(encode(R"({"type":"WhitespaceSplit"})", " ab!\n cd "), (Ids{7, 2}));
  EXPECT_EQ(encode(R"({"type":"Punctuation"})", "ab!cd"), (Ids{1, 3, 2}));
  EXPECT_EQ(encode(R"({"type":"Punctuation","behavior":"MergedWithPrevious"})", "ab!cd"),
            (Ids{7, 2}));
  EXPECT_EQ(encode(R"({"type":"Digits","individual_digits":false})", "ab12"), (Ids{1, 4}));
  EXPECT_EQ(encode(R"({"type":"Digits","individual_digits":true})", "ab12"), (Ids{1, 5, 6}));
}

TEST(TokenizerParts, MetaspacePutsASpaceInFront) {
  const std::string space = kSpace;
  const auto encode = [&](const std::string& scheme, const std::string& text) {
    Parts parts = words({space + "ab", "ab", space + "cd"});
    parts.pre_tokenizer = R"({"type":"Metaspace","replacement":")" + space +
                          R"(","prepend_scheme":")" + scheme + R"("})";
    parts.added_tokens = R"({"id":9,"content":"<s>"})";
    return load(parts)->encode(text);
  };
  EXPECT_EQ(encode("always", "ab cd"), (Ids{1, 3}));
  EXPECT_EQ(encode("always", " ab"), Ids{1});
  EXPECT_EQ(encode("never", "ab cd"), (Ids{2, 3}));
  EXPECT_EQ(encode("first", "ab<s>ab"), (Ids{1, 9, 2}));
  EXPECT_EQ(encode("always", "ab<s>ab"), (Ids{1, 9, 1}));
  EXPECT_EQ(encode("first", "<s>ab"), (Ids{9, 2}));
}

// As tokenizers 0.23.3.
TEST(TokenizerParts, OfTokensWithTheSameNormalizedFormTheOneSpeltSoCounts) {
  for (const char* second : {"true", "false"}) {
    Parts parts = words({"ab"});
    parts.normalizer = R"({"type":"Lowercase"})";
    parts.added_tokens = R"({"id":8,"content":"<A>","normalized":true,"special":true},)"
                         R"({"id":9,"content":"<a>","normalized":true,"special":)" +
                         std::string(second) + "}";
    const auto tokenizer = load(parts);
    EXPECT_EQ(tokenizer->encode("<A><a>", {.add_special = false, .parse_special = true}),
              (Ids{9, 9}));
    EXPECT_EQ(tokenizer->is_special(8), tokenizer->is_special(9));
    EXPECT_EQ(tokenizer->is_special(9), second == std::string("true"));
  }
}

// As tokenizers 0.23.3, which fails on the text "<e>\n ab": there "<e>" has all white space.
TEST(TokenizerParts, ATokenThatTheOneBeforeItConsumedIsDropped) {
  const auto encode = [](const std::string& first, const std::string& second,
                         const std::string& text) {
    Parts parts = words({"ab"});
    parts.pre_tokenizer = R"({"type":"WhitespaceSplit"})";
    parts.added_tokens = R"({"id":8,"content":"<e>",)" + first + R"(},{"id":9,"content":)" + second;
    return load(parts)->encode(text);
  };
  const std::string rstrip = R"("rstrip":true)", lstrip = R"("\n","lstrip":true})",
                    both = R"("  ","lstrip":true,"rstrip":true})";
  EXPECT_EQ(encode(rstrip, lstrip, "<e>\nab"), (Ids{8, 1}));
  EXPECT_EQ(encode(rstrip, lstrip, "<e>\n ab"), (Ids{8, 1}));
  EXPECT_EQ(encode(rstrip, R"("\n"})", "<e>\n ab"), (Ids{8, 9, 1}));
  EXPECT_EQ(encode(R"("rstrip":false)", lstrip, "<e> \nab"), (Ids{8, 9, 1}));
  EXPECT_EQ(encode(rstrip, both, "    ab"), (Ids{9, 1}));
  EXPECT_EQ(encode(rstrip, both, "ab      ab"), (Ids{1, 9, 1}));
}

// As tokenizers 0.23.3: the scheme "first" is about the original text.
TEST(TokenizerParts, MetaspaceFirstIsAboutTheTextBeforeTheNormalizer) {
  const std::string space = kSpace;
  const auto encode = [&](const std::string& normalizer, const std::string& text) {
    Parts parts = words({space + "ab", "ab"});
    parts.normalizer = normalizer;
    parts.pre_tokenizer =
        R"({"type":"Metaspace","replacement":")" + space + R"(","prepend_scheme":"first"})";
    return load(parts)->encode(text);
  };
  const std::string strip = R"({"type":"Strip","strip_left":true,"strip_right":true})";
  EXPECT_EQ(encode(strip, "ab"), Ids{1});
  EXPECT_EQ(encode(strip, " ab"), Ids{2});
  EXPECT_EQ(encode(R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":" "},)" +
                       strip + "]}",
                   "ab"),
            Ids{1});
  EXPECT_EQ(encode(R"({"type":"Replace","pattern":{"String":"x"},"content":"a"})", "xb"), Ids{1});
  EXPECT_EQ(encode(R"({"type":"Replace","pattern":{"String":"xx"},"content":"a"})", "xxb"), Ids{2});
  EXPECT_EQ(encode(R"({"type":"StripAccents"})",
                   "\xcc\x81"
                   "ab"),
            Ids{2});
}

// Ids of tokenizers 0.23.3: a character that a later one became is not at the start.
TEST(TokenizerParts, NormalFormsKeepTheStartOfTheText) {
  const std::string space = kSpace;
  Parts parts{
      .model = R"({"type":"BPE","vocab":{")" + space + R"(":0,"a":1,"1":2,"2":3},"merges":[]})",
      .normalizer = R"({"type":"NFKC"})",
      .pre_tokenizer =
          R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},)"
          R"({"type":"Metaspace","replacement":")" +
          space + R"(","prepend_scheme":"first"}]})"};
  const auto tokenizer = load(parts);
  for (const auto& [text, ids] : {std::pair{"1\xc2\xb2", Ids{0, 2, 3}},
                                  {"\xef\xbc\x91\xef\xbc\x92", Ids{0, 2, 3}},
                                  {"a\xc2\xb9", Ids{0, 1, 2}}}) {
    EXPECT_EQ(tokenizer->encode(text), ids) << text;
    EXPECT_EQ(tokenizer->encode_with_spans(text).ids, ids) << text;
  }
}

// Ids of tokenizers 0.23.3, whose iterator skips an empty match at the end of another one.
TEST(TokenizerParts, ReplaceSkipsAnEmptyMatchAfterAnother) {
  const auto encode = [](const std::string& pattern, const std::string& text) {
    Parts parts{.model = R"({"type":"BPE","vocab":{".":0,"a":1,"b":2," ":3},"merges":[]})",
                .normalizer = R"({"type":"Replace","pattern":{"Regex":)" + json_quote(pattern) +
                              R"(},"content":"."})"};
    return load(parts)->encode(text);
  };
  EXPECT_EQ(encode("\\s*$", "a "), (Ids{1, 0}));
  EXPECT_EQ(encode("\\s*$", "a"), (Ids{1, 0}));
  EXPECT_EQ(encode("\\s*$", "a b"), (Ids{1, 3, 2, 0}));
  EXPECT_EQ(encode(" *", "a b"), (Ids{0, 1, 0, 2, 0}));
  EXPECT_EQ(encode(" *", "ab"), (Ids{0, 1, 0, 2, 0}));
  EXPECT_EQ(encode(" *", "a "), (Ids{0, 1, 0}));
}

TEST(TokenizerParts, NormalizersChangeText) {
  const auto encode = [](const std::string& normalizer, const std::string& text) {
    Parts parts = words({"ab", "e", "-ab", "\xc3\xa9", "\xc3\x83\xc2\xa9"});
    parts.normalizer = normalizer;
    return load(parts)->encode(text);
  };
  EXPECT_EQ(encode(R"({"type":"Strip","strip_left":true,"strip_right":true})", " ab\n"), Ids{1});
  EXPECT_EQ(encode(R"({"type":"Strip","strip_left":true,"strip_right":true})", " \n"), Ids{});
  EXPECT_EQ(encode(R"({"type":"Strip","strip_left":true,"strip_right":false})", " ab "), Ids{0});
  EXPECT_EQ(encode(R"({"type":"Prepend","prepend":"-"})", "ab"), Ids{3});
  EXPECT_EQ(encode(R"({"type":"Prepend","prepend":"-"})", ""), Ids{});
  EXPECT_EQ(encode(R"({"type":"Replace","pattern":{"Regex":"x+"},"content":"b"})", "axxx"), Ids{1});
  const std::string strip_and_begin =
      R"({"type":"Sequence","normalizers":[{"type":"Strip","strip_left":true,"strip_right":true},)"
      R"({"type":"Replace","pattern":{"Regex":"^"},"content":"-"}]})";
  EXPECT_EQ(encode(strip_and_begin, " ab"), Ids{3});
  EXPECT_EQ(encode(strip_and_begin, "  "), Ids{});  // an empty text has no match
  EXPECT_EQ(encode(R"({"type":"NFC"})", "e\xcc\x81"), Ids{4});
  EXPECT_EQ(encode(R"({"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"StripAccents"}]})",
                   "\xc3\xa9"),
            Ids{2});
  EXPECT_EQ(encode(R"({"type":"ByteLevel"})", "\xc3\xa9"), Ids{5});
}

TEST(TokenizerParts, ACharacterMapIsCheckedBeforeItIsFollowed) {
  Parts parts = words({"ab"});
  const auto with = [&](const std::string& base64) {
    parts.normalizer = R"({"type":"Precompiled","precompiled_charsmap":")" + base64 + "\"}";
    return error_of(parts);
  };
  EXPECT_THAT(with("AA=="), ::testing::HasSubstr("has a trie of 0 bytes"));
  EXPECT_THAT(with("/////wAAAAA="), ::testing::HasSubstr("has a trie of 4294967295 bytes"));
  EXPECT_THAT(with("A*=="), ::testing::HasSubstr("is not base64"));
  // A trie of one unit whose offset is far out of bounds.
  EXPECT_EQ(with("BAAAAP///38AAAAA"), "accepted");
  EXPECT_EQ(load(parts)->encode("ab"), Ids{1});
}

TEST(TokenizerParts, WithoutADecoderTokensHaveASpaceBetween) {
  Parts parts = words({"ab", "cd"});
  parts.pre_tokenizer = R"({"type":"WhitespaceSplit"})";
  const auto tokenizer = load(parts);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("ab  cd")), "ab cd");
}

// As in transformers, which ignores the key for BPE.
TEST(TokenizerParts, TheConfigCleansUpSpaces) {
  const auto with = [](const Parts& parts, const char* config) {
    return testing::load({{"tokenizer.json", parts.json()}, {"tokenizer_config.json", config}});
  };
  const char* on = R"({"clean_up_tokenization_spaces":true})";
  const Parts parts = words({"do", "n't", ".", "'", "s"});
  const auto tokenizer = with(parts, on);
  EXPECT_EQ(tokenizer->decode(Ids{1, 2, 3}), "don't.");
  EXPECT_EQ(tokenizer->decode(Ids{1, 4, 5, 4}), "do's '");
  const auto stream = tokenizer->stream();
  std::string text;
  for (TokenId id : {1, 2, 1, 3, 3}) text += stream->push(id);
  EXPECT_EQ(text + stream->finish(), "don't do..");
  EXPECT_EQ(tokenizer->token_bytes(3), " .");
  EXPECT_EQ(load(parts)->decode(Ids{1, 2, 3}), "do n't .");
  const Parts bpe = {.model = R"({"type":"BPE","vocab":{"a":0,".":1},"merges":[]})"};
  EXPECT_EQ(with(bpe, on)->decode(Ids{0, 1}), "a .");
}

TEST(TokenizerParts, StripTakesCharactersFromBothEndsOfAToken) {
  Parts parts = words({"--ab--", "-"});
  parts.decoder = R"({"type":"Strip","content":"-","start":1,"stop":1})";
  const auto tokenizer = load(parts);
  EXPECT_EQ(tokenizer->decode(Ids{1, 1}), "-ab--ab-");
  EXPECT_EQ(tokenizer->decode(Ids{2}), "");
  EXPECT_EQ(tokenizer->token_bytes(1), "-ab-");
}

// Only the first and the last token of a text lose their spaces.
TEST(TokenizerParts, TokensInTheMiddleOfAFusedTextKeepTheirSpaces) {
  Parts parts = words({"a ", "b", " "});
  parts.decoder =
      R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":1}]})";
  const auto tokenizer = load(parts);
  EXPECT_EQ(tokenizer->token_bytes(1), "a ");
  EXPECT_EQ(tokenizer->token_bytes(2), "b");
  EXPECT_EQ(tokenizer->token_bytes(3), " ");
  EXPECT_EQ(tokenizer->decode(Ids{3, 1, 2, 3}), "a b");
}

// As tokenizers 0.23.3, which joins all tokens first. A stream has shown "a" when "b" arrives.
TEST(TokenizerParts, ReplaceAfterByteLevelMatchesAcrossTokens) {
  for (const char* joins : {"ByteLevel", "Fuse"}) {
    Parts parts = words({"a", "b"});
    parts.decoder = R"({"type":"Sequence","decoders":[{"type":")" + std::string(joins) +
                    R"("},{"type":"Replace","pattern":{"String":"ab"},"content":"X"}]})";
    const auto tokenizer = load(parts);
    EXPECT_EQ(tokenizer->decode(Ids{1, 2, 1, 2, 1}), "XXa") << joins;
    const auto stream = tokenizer->stream();
    EXPECT_EQ(stream->push(1), "a") << joins;
    EXPECT_EQ(stream->push(2) + stream->finish(), "b") << joins;
  }
}

TEST(TokenizerParts, OnlyAByteLevelFollowsATemplate) {
  const std::string around = R"({"type":"BertProcessing","cls":["a",1],"sep":["b",2]})",
                    in_template = R"({"type":"TemplateProcessing","special_tokens":{},)"
                                  R"("single":[{"Sequence":{"id":"A","type_id":0}}]})";
  const auto with = [](const std::string& steps) {
    Parts parts = words({"a", "b"});
    parts.decoder += R"(,"post_processor":{"type":"Sequence","processors":[)" + steps + "]}";
    return error_of(parts);
  };
  EXPECT_EQ(with(around + "," + in_template + R"(,{"type":"ByteLevel"})"), "accepted");
  for (const auto& [step, type] :
       {std::pair{around, "BertProcessing"}, {in_template, "TemplateProcessing"}})
    EXPECT_EQ(with(in_template + "," + step),
              "tokenizer.json:3: 'post_processor.processors[1].type' is \"" + std::string(type) +
                  "\", which is not supported after a TemplateProcessing");
}

TEST(TokenizerParts, NamesTheMissingPartOfAVocabulary) {
  EXPECT_EQ(error_of({.model = R"({"type":"Unigram","vocab":[["a"]]})"}),
            "tokenizer.json:5: 'model.vocab[0]' must be a token and its score, eg [\"the\", -3.5], "
            "got an array of 1");
  EXPECT_EQ(error_of({.model = R"({"type":"Unigram","unk_id":3,"vocab":[["a",0]]})"}),
            "tokenizer.json:5: 'model.unk_id' must be an id from 0 to 0, got 3");
  EXPECT_EQ(
      error_of({.model = R"({"type":"BPE","unk_token":"?","byte_fallback":true,"vocab":{"a":0},)"
                         R"("merges":[]})"}),
      "tokenizer.json:5: 'model.unk_token' is \"?\", which is not in the vocabulary");
  Parts parts = words({"a"});
  parts.pre_tokenizer = R"({"type":"Metaspace","replacement":"ab"})";
  EXPECT_EQ(error_of(parts),
            "tokenizer.json:2: 'pre_tokenizer.replacement' must be one character, got \"ab\"");
}

}  // namespace
}  // namespace lamina::text
