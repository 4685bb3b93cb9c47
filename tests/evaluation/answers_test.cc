// Equality of answers, the standard error of a share of right answers, and the end of an
// evaluation.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/backend.h"
#include "evaluation/answers.h"
#include "support/models.h"

namespace lamina::evaluation {
namespace {

TEST(AnswerComparison, Example) {
  EXPECT_EQ(AnswerComparison{}.normalized("  The\t answer\n"), "The answer");
}

TEST(AnswerComparison, WhiteSpaceOfUnicodeIsRemoved) {
  EXPECT_EQ(AnswerComparison{}.normalized("\u3000The\u00a0 answer\u2003"), "The answer");
  EXPECT_EQ(AnswerComparison{}.normalized("\xff \xe3\x80"), "\xff \xe3\x80");
}

TEST(AnswerComparison, CaseAndPunctuationCountUnlessIgnored) {
  EXPECT_EQ(AnswerComparison{}.normalized("Paris."), "Paris.");
  EXPECT_EQ((AnswerComparison{.ignore_case = true}.normalized("\xc3\x89"
                                                              "cole")),
            "\xc3\xa9"
            "cole");
  EXPECT_EQ((AnswerComparison{.ignore_punctuation = true}.normalized("$1,000.")), "1000");
  EXPECT_EQ((AnswerComparison{.ignore_punctuation = true}.normalized("a . b")), "a b");
}

// sqrt(0.25 * 0.75 / 3)
TEST(Share, StandardErrorEqualsTheFormula) {
  Share share;
  for (const bool hit : {true, false, false, false}) share.add(hit);
  EXPECT_DOUBLE_EQ(share.value(), 0.25);
  EXPECT_DOUBLE_EQ(share.standard_error().value(), std::sqrt(0.0625));
  EXPECT_EQ(Share{}.value(), 0);
  EXPECT_EQ((Share{.count = 1, .total = 1}.standard_error()), std::nullopt);
}

// All weights are 0, so token 0 follows every token.
TEST(EvaluateAnswers, MayStopBetweenTwoTokens) {
  const decoder::Model model = lamina::testing::open_description(
      "family = \"simple\"\n[model]\nvocab_size = 258\nhidden_size = 8\nnum_hidden_layers = 1\n");
  const std::vector<float> table(258 * 8), layer(8 * 8), norm(8);
  const std::vector<ConstTensorRef> weights = {
      host_tensor(std::span(table)), host_tensor(std::span(layer)), host_tensor(std::span(norm)),
      host_tensor(std::span(table))};
  const auto tokenizer = text::make_byte_tokenizer();
  struct Stop {};
  int tokens = 0;
  const auto answer = [&](std::int64_t max_new_tokens) {
    evaluate_answers(model, weights, {{.place = {}, .prompt = {1}, .answers = {"a"}, .stop = {}}},
                     *tokenizer, {.dtype = DType::f32, .max_new_tokens = max_new_tokens},
                     cpu::cpu_backend(), {}, [&] {
                       if (++tokens == 3) throw Stop();
                     });
  };
  answer(2);
  EXPECT_EQ(tokens, 2);
  EXPECT_THROW(answer(100), Stop);
}

}  // namespace
}  // namespace lamina::evaluation
