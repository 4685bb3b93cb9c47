// Generated text: whole characters, stop strings, end tokens, limits.
#include "decode/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <limits>

#include "backends/cpu/backend.h"
#include "decode/shown_text.h"
#include "metaspace_tokenizer.h"
#include "support/expect_error.h"
#include "support/models.h"
#include "support/temp_dir.h"

namespace lamina::decode {
namespace {

constexpr std::int32_t kEnd = 257;

// A model that always continues with the next byte of a text, then with kEnd. Tokens are unit
// vectors, the layer is the identity, and a token's row of the head is the unit vector of the token
// before. A byte must not occur twice.
class Parrot {
 public:
  explicit Parrot(const std::string& text)
      : model_(testing::open_description("family = \"simple\"\n[model]\nvocab_size = 258\n"
                                         "hidden_size = 258\nnum_hidden_layers = 1\n")),
        embed_(258 * 258),
        norm_(258, 1),
        head_(258 * 258) {
    for (std::size_t i = 0; i < 258; ++i) embed_[i * 258 + i] = 1;
    for (std::size_t i = 0; i < text.size(); ++i) {
      std::size_t next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : kEnd;
      head_[next * 258 + static_cast<unsigned char>(text[i])] = 1;
    }
    first_ = static_cast<unsigned char>(text[0]);
  }

  // Decodes greedily from the first byte of the text.
  Generated generate(GenerateOptions options, const text::Tokenizer* tokenizer,
                     const std::function<bool()>& should_stop = {}) {
    // The token table is also the layer's matrix: both are the identity.
    const std::vector<ConstTensorRef> parameters = {
        host_tensor(std::span(embed_)), host_tensor(std::span(embed_)),
        host_tensor(std::span(norm_)), host_tensor(std::span(head_))};
    Session session(model_, parameters, {.capacity = 64}, cpu::cpu_backend());
    options.sampler.temperature = 0;
    shown.clear();
    return decode::generate(
        session, std::span(&first_, 1), tokenizer, options,
        [&](std::string_view piece) {
          EXPECT_FALSE(piece.empty());
          shown.emplace_back(piece);
        },
        should_stop);
  }
  Generated generate(GenerateOptions options) { return generate(std::move(options), bytes_.get()); }

  std::vector<std::string> shown;
  void poison() { norm_[0] = std::numeric_limits<float>::quiet_NaN(); }

 private:
  decoder::Model model_;
  std::vector<float> embed_, norm_, head_;
  std::int32_t first_;
  std::unique_ptr<text::Tokenizer> bytes_ = text::make_byte_tokenizer();
};

TEST(Generate, Example) {
  Parrot parrot("x\xc3\xa9 STOP");
  Generated out = parrot.generate({.end_tokens = {kEnd}});
  EXPECT_EQ(out.text, "\xc3\xa9 STOP");
  EXPECT_EQ(out.reason, StopReason::end_token);
  EXPECT_EQ(out.tokens.size(), 7u);
  EXPECT_THAT(parrot.shown, ::testing::ElementsAre("\xc3\xa9", " ", "S", "T", "O", "P"));
}

TEST(Generate, AStopStringIsNeitherShownNorPartOfTheText) {
  Parrot parrot("x\xc3\xa9 STOP");
  Generated out = parrot.generate({.stop = {"TOP", " ?"}});
  EXPECT_EQ(out.text, "\xc3\xa9 S");
  EXPECT_EQ(out.reason, StopReason::stop_string);
  EXPECT_THAT(parrot.shown, ::testing::ElementsAre("\xc3\xa9", " S"));
}

TEST(Generate, AnIncompleteStopStringIsShownAtTheEnd) {
  Parrot parrot("x\xc3\xa9 STOP");
  Generated out = parrot.generate({.end_tokens = {kEnd}, .stop = {"STOPS"}});
  EXPECT_EQ(out.text, "\xc3\xa9 STOP");
  EXPECT_EQ(out.reason, StopReason::end_token);
}

TEST(Generate, AStopStringEndsATextInWhichALongerOneIsIncomplete) {
  Parrot parrot("x\xc3\xa9 STOP");
  const Generated out = parrot.generate({.end_tokens = {kEnd}, .stop = {"STOPS", "TO"}});
  EXPECT_EQ(out.text, "\xc3\xa9 S");
  EXPECT_EQ(out.reason, StopReason::stop_string);
}

TEST(Generate, TheLimitCountsTokensAndNeverCutsACharacter) {
  Parrot parrot("x\xc3\xa9 STOP");
  Generated out = parrot.generate({.max_new_tokens = 3});
  EXPECT_EQ(out.text, "\xc3\xa9 ");
  EXPECT_EQ(out.reason, StopReason::length);
  EXPECT_EQ(parrot.generate({.max_new_tokens = 1}).text, "\xef\xbf\xbd");  // half a character
}

TEST(Generate, ATextThatTheContextCutsSaysSo) {
  Parrot parrot("x\xc3\xa9 STOP");
  const Generated cut = parrot.generate({.max_new_tokens = 50, .room_tokens = 3});
  EXPECT_EQ(cut.tokens.size(), 3u);
  EXPECT_EQ(cut.reason, StopReason::context);
  EXPECT_EQ(name(cut.reason), "context");
  EXPECT_EQ(parrot.generate({.max_new_tokens = 3, .room_tokens = 3}).reason, StopReason::length);
  EXPECT_EQ(parrot.generate({.max_new_tokens = 50, .stop = {"\xc3\xa9 "}, .room_tokens = 3}).reason,
            StopReason::stop_string);
}

TEST(Generate, ATextThatTheContextCutsBeginsTheWholeTextAndHasNoForcedEnd) {
  Parrot parrot("x!?");
  GenerateOptions options = {.max_new_tokens = 3, .room_tokens = 2};
  options.sampler.forced_last = {'a'};
  EXPECT_THAT(parrot.generate(options).tokens, ::testing::ElementsAre('!', '?'));
  options.room_tokens = 3;
  EXPECT_THAT(parrot.generate(options).tokens, ::testing::ElementsAre('!', '?', 'a'));
}

TEST(Generate, TheEndTokenIsOneOfManyWhereItIsIgnored) {
  Parrot parrot("x!");
  const Generated out =
      parrot.generate({.max_new_tokens = 2, .end_tokens = {kEnd}, .ignore_end = true});
  EXPECT_EQ(out.tokens, (std::vector<std::int32_t>{'!', kEnd}));
  EXPECT_EQ(out.reason, StopReason::length);
}

TEST(Generate, ItDoesNotEndBeforeTheLeastNumberOfTokensAndEndsWithTheForcedOne) {
  Parrot parrot("x!");
  GenerateOptions options = {.max_new_tokens = 3, .end_tokens = {kEnd}};
  options.sampler.min_new_tokens = 2;
  options.sampler.forced_last = {'a'};
  const Generated out = parrot.generate(options);
  ASSERT_EQ(out.tokens.size(), 3u);
  EXPECT_EQ(out.tokens[0], '!');
  EXPECT_NE(out.tokens[1], kEnd);
  EXPECT_EQ(out.tokens[2], 'a');
}

// The text of transformers' decode(prompt + output) after decode(prompt).
TEST(Generate, TheTextContinuesThePromptAndKeepsItsFirstSpace) {
  Parrot parrot("\x01\x02\x03");
  const auto tokenizer = metaspace_tokenizer();
  GenerateOptions options = {.end_tokens = {kEnd}};
  EXPECT_EQ(parrot.generate(options, tokenizer.get()).text, " the world");
  EXPECT_THAT(parrot.shown, ::testing::ElementsAre(" the", " world"));
  options.begins_text = true;
  EXPECT_EQ(parrot.generate(options, tokenizer.get()).text, "the world");
}

TEST(Generate, AStopStringMayBeginWithTheSpaceAfterThePrompt) {
  Parrot parrot("\x01\x02\x03");
  const auto tokenizer = metaspace_tokenizer();
  GenerateOptions options = {.end_tokens = {kEnd}, .stop = {" the"}};
  const Generated out = parrot.generate(options, tokenizer.get());
  EXPECT_EQ(out.text, "");
  EXPECT_EQ(out.reason, StopReason::stop_string);
  EXPECT_THAT(out.tokens, ::testing::ElementsAre(2));
  options.begins_text = true;
  EXPECT_EQ(parrot.generate(options, tokenizer.get()).text, "the world");
}

TEST(Generate, ACharacterThatThePromptCutsIsCompleted) {
  Parrot parrot("\xc3\xa9 STOP");
  EXPECT_EQ(parrot.generate({.end_tokens = {kEnd}}).text, "\xc3\xa9 STOP");
  EXPECT_EQ(parrot.generate({.end_tokens = {kEnd}, .begins_text = true}).text, "\xef\xbf\xbd STOP");
}

TEST(Generate, TheLastTokensWithTextDetermineHowATextContinues) {
  const std::unique_ptr<text::Tokenizer> bytes = text::make_byte_tokenizer();
  EXPECT_THAT(last_text_tokens(*bytes, std::vector<std::int32_t>{256, 'a', kEnd, 'b', 1000}),
              ::testing::ElementsAre('a', 'b'));
  EXPECT_THAT(last_text_tokens(*bytes, std::vector<std::int32_t>{256}), ::testing::IsEmpty());
  EXPECT_EQ(last_text_tokens(*bytes, std::vector<std::int32_t>(100, 'a')).size(), 16u);
  const auto words = metaspace_tokenizer();
  const std::vector<std::int32_t> before = {0}, after = {1, 4};
  EXPECT_EQ(text_after(*words, before, after), " ins");
  EXPECT_EQ(text_after(*words, {}, after), "ins");
}

// A run of byte tokens that begins inside a character would be U+FFFD for each byte.
TEST(Generate, ARunOfByteTokensIsNotCut) {
  std::string vocab = R"("x":256)";
  for (int byte = 0; byte < 256; ++byte) vocab += fmt::format(",\"<0x{:02X}>\":{}", byte, byte);
  lamina::testing::TempDir folder;
  folder.write("tokenizer.json",
               R"({"normalizer":null,"pre_tokenizer":null,"added_tokens":[],"model":{"type":"BPE",)"
               R"("byte_fallback":true,"merges":[],"vocab":{)" +
                   vocab +
                   R"(}},"decoder":{"type":"Sequence","decoders":[)"
                   R"({"type":"ByteFallback"},{"type":"Fuse"}]}})");
  const auto tokenizer = text::load_tokenizer(folder.path());
  const std::vector<std::int32_t> character = {0xe4, 0xb8, 0xad};
  std::vector<std::int32_t> prompt = {256, 256};
  for (int i = 0; i < 6; ++i) prompt.insert(prompt.end(), character.begin(), character.end());
  const std::vector<std::int32_t> last = last_text_tokens(*tokenizer, prompt);
  EXPECT_EQ(last, std::vector<std::int32_t>(prompt.begin() + 1, prompt.end()));
  EXPECT_EQ(text_after(*tokenizer, last, character), "\xe4\xb8\xad");
}

TEST(Generate, StopsWhenAsked) {
  Parrot parrot("x\xc3\xa9 STOP");
  int asked = 0;
  std::unique_ptr<text::Tokenizer> bytes = text::make_byte_tokenizer();
  Generated out = parrot.generate({}, bytes.get(), [&] { return ++asked == 4; });
  EXPECT_EQ(out.text, "\xc3\xa9 S");
  EXPECT_EQ(out.reason, StopReason::interrupted);
}

TEST(Generate, WithoutATokenizerItShowsIds) {
  Parrot parrot("x\xc3\xa9!");
  EXPECT_EQ(parrot.generate({.end_tokens = {kEnd}}, nullptr).text, "195 169 33");
}

TEST(Generate, LogitsThatAreNoNumbersGiveNoToken) {
  Parrot parrot("x\xc3\xa9 STOP");
  parrot.poison();
  EXPECT_ERROR_SAYS(parrot.generate({}), ExitCode::numerical,
                    "decode: the logits after 1 token are not numbers\n"
                    "  the weights contain a NaN or infinity, or the type of the products is too "
                    "coarse for them: with bfloat16, try --dtype float32");
}

}  // namespace
}  // namespace lamina::decode
