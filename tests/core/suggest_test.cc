// The nearest name.
#include "core/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace lamina {
namespace {

const std::vector<std::string> kKeys = {"train.steps", "train.seed", "optimizer.lr"};

TEST(NearestName, Example) { EXPECT_EQ(nearest_name("train.stpes", kKeys), "train.steps"); }

TEST(NearestName, PrefersTheSameBeginning) {
  const std::vector<std::string> names = {"k_proj.weight", "q_proj.weightx"};
  EXPECT_EQ(nearest_name("q_proj.weight", names), "q_proj.weightx");
}

TEST(NearestName, IgnoresTheCaseOfLetters) {
  const std::vector<std::string> formats = {"int8", "INT4_64", "int4-g64"};
  EXPECT_EQ(nearest_name("INT8", formats), "int8");
  EXPECT_EQ(nearest_name("Int4-G64", formats), "int4-g64");
}

TEST(NearestName, IsEmptyForTheNameOfAnotherThing) {
  const std::vector<std::string> names = {"int8", "fp8", "bfloat16", "swish", "ipo", "int4-g64"};
  for (const char* typed : {"int4", "INT4", "fp4", "float16", "mish", "simpo"})
    EXPECT_EQ(nearest_name(typed, names), "") << typed;
  EXPECT_EQ(nearest_name("int4", std::vector<std::string>{"int8", "int4"}), "int4");
  EXPECT_EQ(nearest_name("bfloat6", names), "bfloat16");
}

TEST(NearestName, IsEmptyWhenNothingIsNear) { EXPECT_EQ(nearest_name("colour", kKeys), ""); }

TEST(NearestName, CompletesTheBeginningOfOneCandidate) {
  const std::vector<std::string> kinds = {"constant", "cosine", "linear"};
  EXPECT_EQ(nearest_name("cos", kinds), "cosine");
  EXPECT_EQ(nearest_name("co", {}), "");
  EXPECT_EQ(nearest_name("linear_with_warmup", kinds), "");
}

TEST(NearestName, IsEmptyWithoutCandidates) { EXPECT_EQ(nearest_name("x", {}), ""); }

}  // namespace
}  // namespace lamina
