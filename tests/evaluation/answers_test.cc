// Equality of answers, and the standard error of a share of right answers.
#include <gtest/gtest.h>

#include <cmath>

#include "evaluation/answers.h"

namespace lamina::evaluation {
namespace {

TEST(AnswerComparison, Example) {
  EXPECT_EQ(AnswerComparison{}.normalized("  The\t answer\n"), "The answer");
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
  EXPECT_DOUBLE_EQ(share.standard_error(), std::sqrt(0.0625));
  EXPECT_EQ(Share{}.value(), 0);
}

}  // namespace
}  // namespace lamina::evaluation
