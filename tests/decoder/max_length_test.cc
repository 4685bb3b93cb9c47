// Model::max_length(): the longest sequence that a model is made for.
#include <gtest/gtest.h>

#include "support/models.h"

namespace lamina::decoder {
namespace {

using lamina::testing::open_description;

std::optional<std::int64_t> max_length_with(const std::string& lines) {
  return open_description(
             "family = \"llama2\"\n[model]\nvocab_size = 10\nhidden_size = 16\n"
             "intermediate_size = 16\nnum_hidden_layers = 1\nnum_attention_heads = 2\n" +
             lines)
      .max_length();
}

TEST(MaxLength, IsTheLowestOfTheLimitsThatTheModelHas) {
  EXPECT_EQ(max_length_with(""), 2048);  // the default
  EXPECT_EQ(max_length_with("max_position_embeddings = 64\n"), 64);
  EXPECT_EQ(max_length_with("trainable_position_size = 40\n"), 40);
  EXPECT_EQ(max_length_with("trainable_position_size = 40\nmax_position_embeddings = 64\n"), 40);
  EXPECT_EQ(max_length_with("trainable_position_size = 40\nmax_position_embeddings = 32\n"), 32);
}

TEST(MaxLength, DynamicScalingLeavesTheLearnedPositionsOnly) {
  const std::string dynamic =
      "max_position_embeddings = 32\nrope_scaling = { rope_type = \"dynamic\", factor = 2.0 }\n";
  EXPECT_EQ(max_length_with(dynamic), std::nullopt);
  EXPECT_EQ(max_length_with("trainable_position_size = 80\n" + dynamic), 80);
}

}  // namespace
}  // namespace lamina::decoder
