// Tokenizers: valid files, invalid files and their messages; large and malicious texts.
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "support/expect_error.h"
#include "support/temp_dir.h"
#include "text/bpe_support.h"
#include "tokenizer_folder.h"

namespace lamina::text {
namespace {

using lamina::testing::TempDir;
using testing::SmallTokenizer;
using Ids = std::vector<TokenId>;

std::unique_ptr<Tokenizer> load(const SmallTokenizer& small) {
  return testing::load({{"tokenizer.json", small.json()}});
}

std::string error_of(const std::string& json) {
  return testing::error_of({{"tokenizer.json", json}});
}

TEST(Tokenizer, Example) {
  const auto tokenizer = load({});
  const Ids ids = tokenizer->encode("abc<end>", {.parse_special = true});
  EXPECT_EQ(ids, (Ids{257, 259}));
  EXPECT_EQ(tokenizer->decode(ids), "abc<end>");
  EXPECT_EQ(tokenizer->decode(ids, /*skip_special=*/true), "abc");
  EXPECT_EQ(tokenizer->encode("abc<end>").size(), 6u);  // ordinary text by default
  EXPECT_EQ(tokenizer->vocab_size(), 260);
  EXPECT_EQ(tokenizer->find_token("<end>"), 259);
}

TEST(Tokenizer, MergesByRankNotByLength) {
  SmallTokenizer small;
  small.merges = R"("b c","a b")";
  EXPECT_EQ(load(small)->encode("abc"), (Ids{'a', 258}));
}

TEST(Tokenizer, IgnoreMergesTakesAWholeWord) {
  SmallTokenizer small;
  small.merges = "";
  small.model_keys = R"("type":"BPE","ignore_merges":true)";
  EXPECT_EQ(load(small)->encode("abc"), Ids{257});
  EXPECT_EQ(load(small)->encode("abcb"), (Ids{'a', 'b', 'c', 'b'}));
}

TEST(Tokenizer, AVocabularyOfMergedBytesNeedsMerges) {
  SmallTokenizer small;
  small.merges = "";
  EXPECT_THAT(error_of(small.json()),
              ::testing::HasSubstr("'model.merges' is empty, but the vocabulary has tokens of "
                                   "several bytes: every byte of a text would be a token"));
}

TEST(Tokenizer, MergesMayBePairsAndHaveAVersionLine) {
  SmallTokenizer small;
  small.merges = R"(["a","b"],["ab","c"])";
  EXPECT_EQ(load(small)->encode("abc"), Ids{257});
  small.merges = R"("#version: 0.2","a b","ab c")";
  EXPECT_EQ(load(small)->encode("abc"), Ids{257});
}

TEST(Tokenizer, LongWordsMergeLikeShortOnes) {
  const auto tokenizer = load({});
  std::mt19937 random(1);
  for (int n : {47, 48, 49, 50, 300}) {
    std::string word;
    for (int i = 0; i < n; ++i) word += "abc"[random() % 3];
    // The merges in order of rank, each over the whole word from the left.
    Ids expected(word.begin(), word.end());
    const auto merge = [&expected](TokenId left, TokenId right, TokenId result) {
      for (std::size_t i = 0; i + 1 < expected.size(); ++i)
        if (expected[i] == left && expected[i + 1] == right) {
          expected[i] = result;
          expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
    };
    merge('a', 'b', 256);
    merge(256, 'c', 257);
    merge('b', 'c', 258);
    EXPECT_EQ(tokenizer->encode(word), expected) << word;
  }
}

TEST(Tokenizer, AMillionEqualCharactersAreNoTrouble) {
  const auto tokenizer = load({});
  for (char c : {'x', ' ', '\n', '^', '0'})
    EXPECT_EQ(tokenizer->encode(std::string(1000000, c)).size(), 1000000u);
  std::string text;
  for (int i = 0; i < 300000; ++i) text += "abc";
  EXPECT_EQ(tokenizer->encode(text).size(), 300000u);
}

TEST(Tokenizer, RoundTripsAnyUnicodeText) {
  const auto tokenizer = load({});
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    std::string text;
    for (int i = 0; i < 200; ++i) {
      const auto code = static_cast<char32_t>(random() % (random() % 2 ? 0x110000 : 0x300));
      if (code < 0xd800 || code >= 0xe000) utf8_append(text, code);
    }
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST(Tokenizer, ARunOfTextsGivesTheSameIdsAsEachAlone) {
  const auto tokenizer = load({});
  const std::string text = "abc ab bc cab abcabc 123 ";
  const Ids once = tokenizer->encode(text);
  std::string many;
  Ids expected;
  for (int i = 0; i < 500; ++i) {  // more than the first hits of the word cache
    many += text + "\n";
    const Ids line = tokenizer->encode(text + "\n");
    expected.insert(expected.end(), line.begin(), line.end());
  }
  EXPECT_EQ(tokenizer->encode(many), expected);
  EXPECT_EQ(once, tokenizer->encode(text));
}

TEST(Tokenizer, TemplatesPutIdsAroundTheText) {
  SmallTokenizer small;
  small.post_processor =
      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<end>","type_id":0}},
    {"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"<end>":{"id":"<end>","ids":[259],"tokens":["<end>"]}}})";
  EXPECT_EQ(load(small)->encode("a"), (Ids{259, 'a'}));
  EXPECT_EQ(load(small)->encode(""), Ids{259});
  EXPECT_EQ(load(small)->encode("a", {.add_special = false}), Ids{'a'});
}

TEST(Tokenizer, FindsBosAndEosByName) {
  TempDir dir;
  dir.write("tokenizer.json", SmallTokenizer().json());
  EXPECT_EQ(load_tokenizer(dir.path())->eos_id(), std::nullopt);
  dir.write("special_tokens_map.json", R"({"eos_token":{"content":"<end>"}})");
  EXPECT_EQ(load_tokenizer(dir.path())->eos_id(), 259);
  dir.write("tokenizer_config.json", R"({"bos_token":"abc","eos_token":"abc"})");
  EXPECT_EQ(load_tokenizer(dir.path())->eos_id(), 259);
  EXPECT_EQ(load_tokenizer(dir.path())->bos_id(), 257);
  dir.write("special_tokens_map.json", R"({"bos_token":null})");
  EXPECT_EQ(load_tokenizer(dir.path())->eos_id(), 257);
  EXPECT_EQ(load_tokenizer(dir.path())->bos_id(), std::nullopt);
}

TEST(Tokenizer, AConfigWithAddedTokensIsComplete) {
  TempDir dir;
  dir.write("tokenizer.json", SmallTokenizer().json());
  dir.write("special_tokens_map.json", R"({"bos_token":"<end>","eos_token":"<end>"})");
  dir.write("tokenizer_config.json",
            R"({"added_tokens_decoder":{},"bos_token":null,"eos_token":"abc"})");
  EXPECT_EQ(load_tokenizer(dir.path())->eos_id(), 257);
  EXPECT_EQ(load_tokenizer(dir.path())->bos_id(), std::nullopt);
}

// As transformers 5.24; "<x>" has the id 259 in the vocabulary.
TEST(Tokenizer, FilesBesideItMakeTokensSpecial) {
  const auto with = [](const std::string& config, const std::string& map = "{}",
                       const std::string& added = "") {
    SmallTokenizer small;
    small.more_vocab += R"(,"<x>":259)";
    small.added_tokens = R"({"id":260,"content":"<end>","special":true})" + added;
    return testing::load({{"tokenizer.json", small.json()},
                          {"tokenizer_config.json", config},
                          {"special_tokens_map.json", map}});
  };
  const EncodeOptions special{.parse_special = true};
  const Ids as_text{'a', ' ', '<', 'x', '>', ' ', 'b'}, found{'a', ' ', 259, ' ', 'b'};
  EXPECT_EQ(with("{}")->encode("a <x> b", special), as_text);
  // Without an id it is text; transformers adds an id.
  EXPECT_EQ(with(R"({"extra_special_tokens":["<y>"]})")->encode("a <y> b", special).size(), 7u);
  for (const char* config :
       {R"({"eos_token":"<x>"})", R"({"image_token":"<x>"})", R"({"mask_token":{"content":"<x>"}})",
        R"({"additional_special_tokens":["<x>"]})", R"({"extra_special_tokens":["<x>"]})",
        R"({"extra_special_tokens":{"image":"<x>"}})",
        R"({"model_specific_special_tokens":{"image_token":"<x>"}})",
        R"({"added_tokens_decoder":{"259":{"content":"<x>","special":true}}})"}) {
    EXPECT_EQ(with(config)->encode("a <x> b", special), found) << config;
    EXPECT_EQ(with(config)->encode("a <x> b"), as_text) << config;
    EXPECT_EQ(with(config)->decode(Ids{'a', 259, 'b'}, true), "ab") << config;
  }
  EXPECT_EQ(with("{}", R"({"additional_special_tokens":["<x>"]})")->encode("a <x> b", special),
            found);
  EXPECT_EQ(with(R"({"mask_token":{"content":"<x>","lstrip":true}})")->encode("a <x> b", special),
            (Ids{'a', 259, ' ', 'b'}));
  // The newer list replaces the older one; a config with added tokens is complete.
  EXPECT_EQ(with(R"({"extra_special_tokens":["<y>"],"additional_special_tokens":["<x>"]})")
                ->encode("a <x> b", special),
            as_text);
  EXPECT_EQ(
      with(R"({"added_tokens_decoder":{}})", R"({"eos_token":"<x>"})")->encode("a <x> b", special),
      as_text);
  // The space of the vocabulary is spelt otherwise in files.
  const auto space = with(R"({"pad_token":" "})");
  EXPECT_EQ(space->decode(Ids{'a', ' ', 'b'}, true), "a b");
  EXPECT_FALSE(space->pad_id());
  // A key makes an added token special, a list does not.
  const std::string plain = R"(,{"id":259,"content":"<x>","special":false})";
  EXPECT_EQ(with(R"({"image_token":"<x>"})", "{}", plain)->encode("a <x> b"), as_text);
  EXPECT_EQ(with(R"({"extra_special_tokens":["<x>"]})", "{}", plain)->encode("a <x> b"), found);
  // Beside a list of added tokens the key counts only for tokens of the list.
  const std::string named = R"({"image_token":"<x>","added_tokens_decoder":)";
  for (const char* list : {"{}", R"({"260":{"content":"<end>","special":true}})"}) {
    const auto left_out = with(named + list + "}", "{}", plain);
    EXPECT_EQ(left_out->encode("a <x> b"), found) << list;
    EXPECT_EQ(left_out->decode(Ids{'a', 259, 'b'}, true), "a<x>b") << list;
  }
  EXPECT_EQ(with(named + R"({"259":{"content":"<x>"}}})", "{}", plain)->encode("a <x> b"), as_text);
}

// As transformers 5.24: the flags of the config count, but a special token stays special. A token
// that tokenizer.json lacks gets the next id.
TEST(Tokenizer, TheConfigListsAddedTokens) {
  const auto with = [](const std::string& entries) {
    return testing::load(
        {{"tokenizer.json", SmallTokenizer().json()},
         {"tokenizer_config.json", R"({"added_tokens_decoder":{)" + entries + "}}"}});
  };
  const EncodeOptions special{.parse_special = true};
  const auto changed =
      with(R"("259":{"content":"<end>","special":false,"normalized":false,"rstrip":true})");
  EXPECT_EQ(changed->encode("a<end> b", special), (Ids{'a', 259, 'b'}));
  EXPECT_EQ(changed->decode(Ids{'a', 259, 'b'}, true), "ab");
  const auto more = with(R"("270":{"content":""},"300":{"content":"<y>"},)"
                         R"("280":{"content":"<x>","special":true})");
  EXPECT_EQ(more->encode("<end><x><y>", special), (Ids{259, 260, 261}));
  EXPECT_EQ(more->decode(Ids{'a', 259, 260, 261}, true), "a<y>");
  EXPECT_EQ(more->vocab_size(), 262);
  EXPECT_EQ(more->num_own_ids(), 260);
}

TEST(Tokenizer, TheConfigSplitsSpecialTokens) {
  const auto reads = [](const char* config) {
    return testing::load(
               {{"tokenizer.json", SmallTokenizer().json()}, {"tokenizer_config.json", config}})
        ->reads_special_tokens();
  };
  EXPECT_TRUE(reads(R"({"split_special_tokens":false})"));
  EXPECT_FALSE(reads(R"({"split_special_tokens":true})"));
}

TEST(Tokenizer, SavedFilesLoadTheSame) {
  TempDir from, to;
  from.write("tokenizer.json", SmallTokenizer().json());
  from.write("tokenizer_config.json", R"({"eos_token":"<end>"})");
  const auto tokenizer = load_tokenizer(from.path());
  EXPECT_EQ(tokenizer->save(to.path()),
            (std::vector<std::string>{"tokenizer.json", "tokenizer_config.json"}));
  const auto again = load_tokenizer(to.path());
  EXPECT_EQ(again->encode("abc b"), tokenizer->encode("abc b"));
  EXPECT_EQ(again->eos_id(), 259);
}

TEST(Tokenizer, IdsWithoutATokenHaveNoBytes) {
  SmallTokenizer small;
  small.more_vocab = R"("ab":300,"abc":301,"bc":302)";
  small.added_tokens = R"({"id":400,"content":"<end>","special":true})";
  const auto tokenizer = load(small);
  EXPECT_EQ(tokenizer->vocab_size(), 401);
  EXPECT_EQ(tokenizer->token_bytes(299), "");
  EXPECT_EQ(tokenizer->token_bytes(302), "bc");
  EXPECT_EQ(tokenizer->token_bytes(399), "");
  EXPECT_EQ(tokenizer->token_bytes(1000000), "");
  EXPECT_EQ(tokenizer->decode(Ids{'a', 350, 'b'}), "ab");
}

TEST(Tokenizer, AStageAfterByteLevelChangesNoBytesOfATokenAlone) {
  SmallTokenizer small;
  small.decoder =
      R"({"type":"Sequence","decoders":[{"type":"ByteLevel"},{"type":"Strip","content":" ","start":1,"stop":1}]})";
  const auto tokenizer = load(small);
  for (int byte = 0; byte < 256; ++byte)
    EXPECT_EQ(tokenizer->token_bytes(byte), std::string(1, static_cast<char>(byte)));
  EXPECT_EQ(tokenizer->decode(Ids{' ', 0xc3, 0xa9, ' '}), "\xc3\xa9");
}

// As tokenizers 0.23.3. The token decodes to the byte 0xE9.
TEST(Tokenizer, AnAddedTokenIsSpeltAsInTheFile) {
  SmallTokenizer small;
  small.added_tokens = R"({"id":259,"content":"\u00e9","special":true})";
  const auto tokenizer = load(small);
  EXPECT_EQ(tokenizer->spelling(259), "\u00e9");
  EXPECT_EQ(tokenizer->token_bytes(259), "\xe9");
  EXPECT_EQ(tokenizer->spelling(' '), "\u0120");
}

TEST(Tokenizer, DecodeRefusesIdsOutsideTheVocabulary) {
  const auto tokenizer = load({});
  EXPECT_USER_ERROR(tokenizer->decode(Ids{1, 260}), ExitCode::data,
                    "decode: token id 260 is outside the vocabulary; expected 0 to 259");
  EXPECT_ERROR_SAYS(tokenizer->decode(Ids{-1}), ExitCode::data, "token id -1 is outside");
}

TEST(Tokenizer, NamesTheFeatureThatItLacks) {
  SmallTokenizer small;
  small.normalizer = R"({"type":"Sequence","normalizers":[{"type":"BertNormalizer"}]})";
  EXPECT_EQ(
      error_of(small.json()),
      "tokenizer.json:1: 'normalizer.normalizers[0].type' is \"BertNormalizer\", a normalizer "
      "that lamina does not have\n  it has NFC, NFD, NFKC, NFKD, Lowercase, Strip, "
      "StripAccents, Prepend, Replace, Precompiled, ByteLevel, Sequence");
  small = {};
  small.pre_tokenizer = R"({"type":"UnicodeScripts"})";
  EXPECT_EQ(error_of(small.json()),
            "tokenizer.json:2: 'pre_tokenizer.type' is \"UnicodeScripts\", a pre_tokenizer that "
            "lamina does not have\n  it has ByteLevel, Split, Digits, Metaspace, Whitespace, "
            "WhitespaceSplit, Punctuation, Sequence");
  small = {};
  small.decoder = R"({"type":"CTC"})";
  EXPECT_EQ(error_of(small.json()),
            "tokenizer.json:4: 'decoder.type' is \"CTC\", a decoder that lamina does not have\n  "
            "it has ByteLevel, ByteFallback, Metaspace, Replace, Fuse, Strip, Sequence");
  small = {};
  small.post_processor = R"({"type":"Odd"})";
  EXPECT_THAT(error_of(small.json()),
              ::testing::HasSubstr("a post_processor that lamina does not have"));
  small = {};
  small.model_keys = R"("type":"WordPiece")";
  EXPECT_EQ(error_of(small.json()),
            "tokenizer.json:6: 'model.type' is \"WordPiece\", a model that lamina does not have\n  "
            "it has BPE, Unigram and WordLevel");
  small = {};
  small.model_keys = R"("type":"BPE","dropout":0.1)";
  EXPECT_EQ(
      error_of(small.json()),
      "tokenizer.json:6: 'model.dropout' is 0.1; lamina does not support dropout of merges\n  set "
      "it to null: it is only for training tokenizers");
}

TEST(Tokenizer, RefusesVocabulariesThatCannotBe) {
  const auto with_vocab = [](std::string more) {
    SmallTokenizer small;
    small.more_vocab = std::move(more);
    return error_of(small.json());
  };
  EXPECT_EQ(with_vocab(R"("ab":-1)"),
            "tokenizer.json:7: 'model.vocab.ab' must be an id from 0 to 16777215, got -1");
  EXPECT_EQ(with_vocab(R"("ab":"x")"),
            "tokenizer.json:7: 'model.vocab.ab' must be an integer, got \"x\"");
  EXPECT_EQ(with_vocab(R"("ab":256.0)"),
            "tokenizer.json:7: 'model.vocab.ab' must be an integer, got 256.0");
  EXPECT_EQ(
      with_vocab(R"("ab":97)"),
      "tokenizer.json:7: 'model.vocab.ab' has id 97, which also belongs to 'a'; ids must differ");
  EXPECT_EQ(with_vocab(R"("ab":256,"ab":257)"),
            "tokenizer.json:7: the key \"ab\" appears twice in one object; keys must be unique");
  EXPECT_THAT(with_vocab(R"("ab":99999999)"), ::testing::HasSubstr("got 99999999"));
}

TEST(Tokenizer, RefusesTextWithAByteThatTheVocabularyLacks) {
  std::string json = SmallTokenizer().json();
  const std::string token = json_quote(testing::alphabet('z')) + ":122,";
  json.erase(json.find(token), token.size());
  TempDir directory;
  directory.write("tokenizer.json", json);
  const auto tokenizer = load_tokenizer(directory.path());
  EXPECT_EQ(tokenizer->encode("ay"), (Ids{'a', 'y'}));
  EXPECT_ERROR_SAYS(tokenizer->encode("az"), ExitCode::data, "has no token for the byte 0x7a");
}

TEST(Tokenizer, RefusesMergesThatCannotBe) {
  const auto with_merges = [](std::string merges) {
    SmallTokenizer small;
    small.merges = std::move(merges);
    return error_of(small.json());
  };
  EXPECT_EQ(with_merges(R"("a b","ab q")"),
            "tokenizer.json:8: 'model.merges[1]' merges 'abq', which is not in the vocabulary\n"
            "  vocabulary and merges must belong together: take both from one file");
  EXPECT_THAT(with_merges(R"("a")"),
              ::testing::HasSubstr("must be two tokens separated by a space"));
  EXPECT_THAT(with_merges(R"("a b c")"), ::testing::HasSubstr("must be two tokens"));
  EXPECT_THAT(with_merges(R"(["a","b","c"])"), ::testing::HasSubstr("must be a pair of tokens"));
  EXPECT_THAT(with_merges(R"(["a",1])"), ::testing::HasSubstr("must be a string, got 1"));
}

TEST(Tokenizer, NamesTheFirstOfSeveralMergesThatCannotBe) {
  const auto with_merges = [](int num_right, const std::string& wrong) {
    SmallTokenizer small;
    small.merges.clear();
    for (int i = 0; i < num_right; ++i) small.merges += R"("a b",)";
    small.merges += wrong;
    return error_of(small.json());
  };
  for (const int num_right : {0, 1, 63, 64, 65, 200}) {
    const std::string first = fmt::format("'model.merges[{}]' ", num_right);
    for (const char* later : {R"("a")", "7", "[]", "[1,2]", R"("q q")"})
      EXPECT_THAT(with_merges(num_right, std::string(R"("a q",)") + later),
                  ::testing::HasSubstr(first + "merges"))
          << later;
    EXPECT_THAT(with_merges(num_right, R"(7,"a q")"), ::testing::HasSubstr(first + "must be"));
  }
}

TEST(TokenizerFaults, ListsOfTheWrongLengthAreRefused) {
  const auto with_cls = [](const std::string& cls) {
    SmallTokenizer small;
    small.post_processor = R"({"type":"RobertaProcessing","sep":["<end>",259],"cls":)" + cls + "}";
    return error_of(small.json());
  };
  EXPECT_EQ(with_cls(R"(["<end>",259])"), "accepted");
  EXPECT_EQ(with_cls(R"(["<end>"])"),
            "tokenizer.json:3: 'post_processor.cls' must be a token and its id, eg [\"</s>\", 2], "
            "got an array of 1");
  for (const char* cls : {"[]", "7", "{}", "null", R"(["<end>",259,1])", "[259,259]"})
    EXPECT_THAT(with_cls(cls), ::testing::HasSubstr("'post_processor.cls' must be a token and its"))
        << cls;
  EXPECT_EQ(with_cls(R"(["<end>",260])"),
            "tokenizer.json:3: 'post_processor.cls[1]' must be an id from 0 to 259, got 260");
  EXPECT_THAT(with_cls(R"(["<end>","259"])"), ::testing::HasSubstr("must be an integer"));
}

TEST(TokenizerFaults, IdsOfATemplateOutsideOfTheVocabularyAreRefused) {
  SmallTokenizer small;
  small.post_processor =
      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<end>","type_id":0}},
    {"Sequence":{"id":"A","type_id":0}}],"special_tokens":{"<end>":{"ids":[259,4294967555]}}})";
  EXPECT_EQ(
      error_of(small.json()),
      "tokenizer.json:4: 'post_processor.special_tokens.<end>.ids[1]' must be an id from 0 to "
      "259, got 4294967555");
}

TEST(TokenizerFaults, AddedTokensWithTheIdOfAnotherAreRefused) {
  const auto with_added = [](const std::string& more) {
    SmallTokenizer small;
    small.added_tokens += "," + more;
    return error_of(small.json());
  };
  EXPECT_EQ(with_added(R"({"id":259,"content":"<end>","special":true})"), "accepted");
  EXPECT_EQ(with_added(R"({"id":256,"content":"ab"})"), "accepted");
  EXPECT_EQ(with_added(R"({"id":260,"content":"<end>"})"),
            "tokenizer.json:5: 'added_tokens[1].id' is 260, but the token \"<end>\" has the id 259 "
            "already");
  EXPECT_EQ(with_added(R"({"id":259,"content":"<other>"})"),
            "tokenizer.json:5: 'added_tokens[1].id' is 259, which is the token \"<end>\"; each "
            "token has its own id");
  EXPECT_EQ(with_added(R"({"id":257,"content":"<other>"})"),
            "tokenizer.json:5: 'added_tokens[1].id' is 257, which is the token \"abc\"; each token "
            "has its own id");
  EXPECT_EQ(
      with_added(R"({"id":16777216,"content":"<other>"})"),
      "tokenizer.json:5: 'added_tokens[1].id' must be an id from 0 to 16777215, got 16777216");
}

TEST(Tokenizer, RefusesPatternsItCannotMatchLikeTheReference) {
  const auto with_pattern = [](std::string pattern) {
    SmallTokenizer small;
    small.pre_tokenizer =
        R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)" +
        json_quote(pattern) +
        R"(},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})";
    return error_of(small.json());
  };
  EXPECT_EQ(
      with_pattern("a(b"),
      "tokenizer.json:2: 'pre_tokenizer.pretokenizers[0].pattern.Regex': the pattern is not a "
      "regular expression: missing closing parenthesis\n  at ''");
  EXPECT_THAT(with_pattern("a{1,3}+"), ::testing::HasSubstr("'}+' in a pattern is not supported"));
  EXPECT_THAT(with_pattern(std::string(70000, 'a')), ::testing::HasSubstr("at most 65536"));
}

TEST(Tokenizer, APatternWithoutEndGivesUpInBoundedTime) {
  SmallTokenizer small;
  small.pre_tokenizer =
      R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(a+)+$"},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})";
  const auto tokenizer = load(small);
  EXPECT_ERROR_SAYS(tokenizer->encode(std::string(60, 'a') + "b"), ExitCode::data, "gave up");
}

TEST(Tokenizer, EveryTruncationOfAFileIsRefused) {
  const std::string json = SmallTokenizer().json();
  for (std::size_t n = 0; n < json.size(); n += n < 300 ? 1 : 97)
    EXPECT_NE(error_of(json.substr(0, n)), "accepted") << n;
}

TEST(Tokenizer, DamagedFilesNeverCrash) {
  const std::string json = SmallTokenizer().json();
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = json;
    for (unsigned n = 1 + random() % 3; n > 0; --n)
      damaged[random() % damaged.size()] = "\"{}[],:0aZ \\-"[random() % 13];
    TempDir dir;
    dir.write("tokenizer.json", damaged);
    try {
      load_tokenizer(dir.path())->encode("abc <end> xyz", {.parse_special = true});
    } catch (const UserError&) {
    }
  }
}

TEST(Tokenizer, SaysWhichFilesADirectoryLacks) {
  TempDir dir;
  EXPECT_USER_ERROR(load_tokenizer(dir.path()), ExitCode::checkpoint,
                    dir.path() +
                        ": has no tokenizer.json, tokenizer.model, tekken.json, tiktoken.model or "
                        "vocab.json; expected a model directory with its tokenizer\n  copy the "
                        "tokenizer files of the "
                        "model there");
  EXPECT_FALSE(has_tokenizer(dir.path()));
  EXPECT_ERROR_SAYS(has_tokenizer(dir.path() + "/removed"), ExitCode::checkpoint,
                    "no such directory");
  dir.write("vocab.txt", "[PAD]");
  EXPECT_ERROR_SAYS(load_tokenizer(dir.path()), ExitCode::checkpoint,
                    "save the tokenizer again as tokenizer.json");
}

TEST(Tokenizer, OfAFileAsksForItsFolder) {
  TempDir dir;
  const std::string text = dir.write("book.txt", "a");
  const std::string says = ": is not a directory; expected a model directory with its tokenizer\n";
  EXPECT_USER_ERROR(load_tokenizer(text), ExitCode::checkpoint,
                    text + says + "  give the directory with the tokenizer of a model");
  const std::string json = dir.write("tokenizer.json", SmallTokenizer().json());
  EXPECT_USER_ERROR(load_tokenizer(json), ExitCode::checkpoint,
                    json + says + "  give its folder, " + dir.path());
}

TEST(ByteTokenizer, Example) {
  const auto tokenizer = make_byte_tokenizer();
  EXPECT_EQ(tokenizer->encode("h\xff"), (Ids{256, 'h', 255}));
  EXPECT_EQ(tokenizer->decode(Ids{256, 'h', 'i', 257}), "hi");
  EXPECT_EQ(tokenizer->vocab_size(), 258);
}

TEST(ByteTokenizer, SavedFilesLoadTheSame) {
  TempDir dir;
  make_byte_tokenizer()->save(dir.path());
  EXPECT_TRUE(has_tokenizer(dir.path()));
  EXPECT_EQ(load_tokenizer(dir.path())->eos_id(), 257);
  dir.write("lamina_tokenizer.json", R"({"type":"bytes","version":2})");
  EXPECT_ERROR_SAYS(load_tokenizer(dir.path()), ExitCode::checkpoint, "reads version 1");
}

}  // namespace
}  // namespace lamina::text
