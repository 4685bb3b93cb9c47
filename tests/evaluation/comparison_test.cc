// Divergence of two predictions of one token.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "evaluation/comparison.h"

namespace lamina::evaluation {
namespace {

std::vector<double> softmax(const std::vector<float>& logits) {
  std::vector<double> p;
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x));
  for (const float x : logits) p.push_back(std::exp(static_cast<double>(x)) / sum);
  return p;
}

TEST(CompareToken, EqualsItsDefinition) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 3);
  for (int round = 0; round < 20; ++round) {
    std::vector<float> logits(37), reference(37);
    for (float& x : logits) x = normal(random);
    for (float& x : reference) x = normal(random);
    const std::vector<double> p = softmax(reference), q = softmax(logits);
    double kl = 0;
    for (std::size_t i = 0; i < p.size(); ++i) kl += p[i] * std::log(p[i] / q[i]);
    const TokenDivergence got = compare_token(logits, reference, 11);
    EXPECT_NEAR(got.kl, kl, 1e-12 * (1 + kl));
    EXPECT_NEAR(got.loss, -std::log(q[11]), 1e-12);
    EXPECT_NEAR(got.reference_loss, -std::log(p[11]), 1e-12);
    EXPECT_EQ(got.agrees, std::max_element(p.begin(), p.end()) - p.begin() ==
                              std::max_element(q.begin(), q.end()) - q.begin());
  }
}

TEST(CompareToken, FindsNoDivergenceFromItself) {
  const std::vector<float> logits = {1, -2, 5, 0.5f};
  const TokenDivergence got = compare_token(logits, logits, 0);
  EXPECT_EQ(got.kl, 0);
  EXPECT_TRUE(got.agrees);
}

// exp(1000) is infinite, and exp(-1000) is 0.
TEST(CompareToken, TakesLogitsOfAnySize) {
  const std::vector<float> logits = {1000, 0, -1000}, reference = {0, 1000, -1000};
  const TokenDivergence got = compare_token(logits, reference, 1);
  EXPECT_NEAR(got.kl, 1000, 1e-9);
  EXPECT_NEAR(got.loss, 1000, 1e-9);
  EXPECT_NEAR(got.reference_loss, 0, 1e-9);
  EXPECT_FALSE(got.agrees);
}

}  // namespace
}  // namespace lamina::evaluation
