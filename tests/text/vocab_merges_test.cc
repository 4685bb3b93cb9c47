// vocab.json with merges.txt: ids, split rules, and invalid directories.
#include "text/hf/vocab_merges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <filesystem>

#include "core/json_writer.h"
#include "support/temp_dir.h"
#include "text/hf/byte_level.h"
#include "tokenizer_folder.h"

namespace lamina::text {
namespace {

using testing::FilesByName;
using ::testing::HasSubstr;
using Ids = std::vector<TokenId>;

// The bytes in order, 256 "ab", 257 "12", 258 "<|endoftext|>".
FilesByName byte_pair_files(const std::string& tokenizer_config) {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte)
    vocab += fmt::format(
        "{}:{},", json_quote(byte_level_spelling(std::string(1, static_cast<char>(byte)))), byte);
  return {{"vocab.json", "{" + vocab + R"("ab":256,"12":257,"<|endoftext|>":258})"},
          {"merges.txt", "#version: 0.2\na b\n1 2\n"},
          {"tokenizer_config.json", tokenizer_config}};
}

TEST(VocabMerges, Example) {
  const auto tokenizer = testing::load(byte_pair_files(R"({"tokenizer_class":"GPT2Tokenizer"})"));
  EXPECT_EQ(tokenizer->encode("ab12"), (Ids{256, 257}));
  EXPECT_EQ(tokenizer->encode("a<|endoftext|>", {.parse_special = true}), (Ids{'a', 258}));
  EXPECT_EQ(tokenizer->decode(Ids{256, 258}, true), "ab");
  EXPECT_EQ(tokenizer->eos_id(), 258);
}

TEST(VocabMerges, TheClassSaysHowATextIsSplit) {
  const auto tokenizer = testing::load(byte_pair_files(R"({"tokenizer_class":"Qwen2Tokenizer"})"));
  EXPECT_EQ(tokenizer->encode("ab12"), (Ids{256, '1', '2'}));
  FilesByName by_model = byte_pair_files("{}");
  by_model["config.json"] = R"({"model_type":"qwen3"})";
  EXPECT_EQ(testing::load(by_model)->encode("12"), (Ids{'1', '2'}));
}

// As in transformers: before the text for GPT-2, before each word for Qwen.
TEST(VocabMerges, ConfigAddsASpaceInFront) {
  const auto ids = [](const std::string& name) {
    return testing::load(
               byte_pair_files(R"({"tokenizer_class":")" + name + R"(","add_prefix_space":true})"))
        ->encode("ab12");
  };
  EXPECT_EQ(ids("GPT2Tokenizer"), (Ids{' ', 256, 257}));
  EXPECT_EQ(ids("Qwen2Tokenizer"), (Ids{' ', 256, ' ', '1', ' ', '2'}));
}

TEST(VocabMerges, ConfigAddsTokensAndBos) {
  FilesByName files = byte_pair_files(
      R"({"tokenizer_class":"GPT2Tokenizer","add_bos_token":true,"bos_token":"<|endoftext|>",)"
      R"("added_tokens_decoder":{"259":{"content":"<tool>","special":true}}})");
  const auto tokenizer = testing::load(files);
  EXPECT_EQ(tokenizer->encode("ab<tool>", {.parse_special = true}), (Ids{258, 256, 259}));
}

// As transformers 5.24. Only special tokens are text by default.
TEST(VocabMerges, NamedAndListedTokensOfOlderDirectoriesAreSpecial) {
  FilesByName files = byte_pair_files(R"({"tokenizer_class":"Qwen2Tokenizer","eos_token":"<e>"})");
  files["special_tokens_map.json"] = R"({"additional_special_tokens":["<s>","12"]})";
  files["added_tokens.json"] = R"({"<s>":259,"<e>":260,"<t>":261})";
  const auto tokenizer = testing::load(files);
  EXPECT_EQ(tokenizer->encode("<s>ab<e>"), (Ids{'<', 's', '>', 256, '<', 'e', '>'}));
  EXPECT_EQ(tokenizer->encode("<t>ab"), (Ids{261, 256}));
  EXPECT_EQ(tokenizer->encode("<s>ab<e>12", {.parse_special = true}), (Ids{259, 256, 260, 257}));
  EXPECT_EQ(tokenizer->encode("12"), (Ids{'1', '2'}));
  EXPECT_EQ(tokenizer->decode(Ids{259, 256, 261, 260, 257}, true), "ab<t>");
  EXPECT_EQ(tokenizer->eos_id(), 260);
}

// A text of users is searched for special tokens only on request.
TEST(VocabMerges, TheConfigSplitsSpecialTokens) {
  const auto reads = [](const char* config) {
    return testing::load(byte_pair_files(config))->reads_special_tokens();
  };
  EXPECT_TRUE(reads(R"({"tokenizer_class":"GPT2Tokenizer"})"));
  EXPECT_FALSE(reads(R"({"tokenizer_class":"GPT2Tokenizer","split_special_tokens":true})"));
}

// GPT-2 has a BOS token without a key, Qwen has none.
TEST(VocabMerges, TheClassNamesABosTokenThatTheFilesLack) {
  const auto with = [](const std::string& name) {
    return testing::load(
        byte_pair_files(R"({"tokenizer_class":")" + name + R"(","add_bos_token":true})"));
  };
  EXPECT_EQ(with("GPT2Tokenizer")->encode("ab12"), (Ids{258, 256, 257}));
  EXPECT_EQ(with("GPT2Tokenizer")->bos_id(), 258);
  EXPECT_EQ(with("Qwen2Tokenizer")->encode("ab12"), (Ids{256, '1', '2'}));
  EXPECT_EQ(with("Qwen2Tokenizer")->bos_id(), std::nullopt);
}

// As transformers 5.24: a default replaces a missing key, not a null.
TEST(VocabMerges, ANullIsNoTokenOfTheClass) {
  const auto tokenizer = testing::load(byte_pair_files(
      R"({"tokenizer_class":"GPT2Tokenizer","bos_token":null,"eos_token":null,"unk_token":null,)"
      R"("add_bos_token":true,"add_eos_token":true})"));
  EXPECT_EQ(tokenizer->encode("ab<|endoftext|>", {.parse_special = true}).size(), 14u);
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
  EXPECT_EQ(tokenizer->eos_id(), std::nullopt);
}

TEST(VocabMerges, TheClassNamesTokensOfPaddingAndUnknownText) {
  const auto tokenizer =
      testing::load(byte_pair_files(R"({"tokenizer_class":"Qwen2Tokenizer","eos_token":"ab"})"));
  EXPECT_EQ(tokenizer->encode("12<|endoftext|>", {.parse_special = true}), (Ids{'1', '2', 258}));
  EXPECT_EQ(tokenizer->pad_id(), 258);
  EXPECT_EQ(tokenizer->eos_id(), 256);
  EXPECT_EQ(testing::load(byte_pair_files(R"({"tokenizer_class":"GPT2Tokenizer"})"))->pad_id(),
            std::nullopt);
}

TEST(VocabMerges, RefusesDirectoriesThatCannotBe) {
  EXPECT_EQ(testing::error_of(byte_pair_files(R"({"tokenizer_class":"CLIPTokenizer"})")),
            "vocab.json: has the class 'CLIPTokenizer', whose rules for splitting a text lamina "
            "does not have\n"
            "  save the tokenizer again as tokenizer.json: transformers' "
            "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)");
  EXPECT_THAT(testing::error_of(byte_pair_files("{}")),
              HasSubstr("neither 'tokenizer_class' in tokenizer_config.json nor 'model_type' in "
                        "config.json gives the rules to split a text"));
  FilesByName alone = byte_pair_files("{}");
  alone.erase("merges.txt");
  EXPECT_THAT(testing::error_of(alone), HasSubstr("vocab.json: has no merges.txt beside it"));
  FilesByName merges = byte_pair_files(R"({"tokenizer_class":"GPT2Tokenizer"})");
  merges["merges.txt"] = "#version: 0.2\na b\na q\n";
  EXPECT_THAT(testing::error_of(merges),
              HasSubstr("merges.txt:3: merges 'aq', which is not in the vocabulary"));
  merges["merges.txt"] = "#version: 0.2\n";
  EXPECT_THAT(testing::error_of(merges),
              HasSubstr("merges.txt: is empty: every byte of a text would be a token"));
}

// The model can still be used with ids.
TEST(VocabMerges, AnUnknownClassIsNoTokenizer) {
  lamina::testing::TempDir folder;
  for (const auto& [name, text] : byte_pair_files(R"({"tokenizer_class":"CLIPTokenizer"})"))
    folder.write(name, text);
  EXPECT_FALSE(has_tokenizer(folder.path()));
  EXPECT_EQ(tokenizer_advice(folder.path()).find("'vocab.json' exists, but 'tokenizer_class' in "),
            0u);
  folder.write("tokenizer_config.json", R"({"tokenizer_class":"GPT2Tokenizer"})");
  EXPECT_TRUE(has_tokenizer(folder.path()));
}

TEST(VocabMerges, OtherTokenizersAreNamed) {
  lamina::testing::TempDir folder;
  folder.write("vocab.txt", "[PAD]\n");
  try {
    load_tokenizer(folder.path());
    ADD_FAILURE() << "accepted";
  } catch (const UserError& e) {
    EXPECT_THAT(e.what(), HasSubstr("it has 'vocab.txt', which lamina does not read: save the "
                                    "tokenizer again as tokenizer.json"));
  }
}

// transformers cannot load such a file without code of the model.
TEST(VocabMerges, RanksWithoutRulesAreNamed) {
  lamina::testing::TempDir folder;
  folder.write("qwen.tiktoken", "IQ== 0\n");
  EXPECT_EQ(tokenizer_advice(folder.path()),
            "it has 'qwen.tiktoken', tiktoken's ranks without the rules to split a text: rename it "
            "to ranks.tiktoken and write a tiktoken.json with its pattern (\"pat_str\") and its "
            "\"special_tokens\"");
}

TEST(VocabMerges, AFolderOfTheHubsCacheNamesItsSnapshot) {
  lamina::testing::TempDir folder;
  std::filesystem::create_directories(folder / "models--a--b/snapshots/0123abcd");
  std::filesystem::create_directories(folder / "models--a--b/snapshots/4567");
  std::filesystem::create_directories(folder / "models--a--b/refs");
  folder.write("models--a--b/refs/main", "4567\n");
  const std::string directory = folder / "models--a--b";
  try {
    load_tokenizer(directory);
    ADD_FAILURE() << "accepted";
  } catch (const UserError& e) {
    EXPECT_THAT(e.what(), HasSubstr("it is a folder of the Hub's cache; use the model inside it: " +
                                    directory + "/snapshots/4567"));
  }
}

}  // namespace
}  // namespace lamina::text
