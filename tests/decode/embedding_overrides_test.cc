// Rows that replace the embeddings of placeholder tokens. Rows copied from the token table change
// nothing, for every division of the prompt, scanned and unrolled.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "backends/cpu/backend.h"
#include "decode/session.h"
#include "support/expect_error.h"
#include "support/goldens.h"
#include "support/models.h"
#include "support/paths.h"
#include "train/loop/train_step.h"

namespace lamina::testing {
namespace {

using decoder::Input;
using decoder::Output;

class EmbeddingOverrides : public ::testing::TestWithParam<const char*> {
 protected:
  EmbeddingOverrides()
      : path(test_model(GetParam()).path),
        model(open_model(path)),
        weights(load_weights({GetParam(), path}, model)),
        text(random_rows(model, 1, kTokens)) {
    // Every third token has an override row; the rows are in another order than the tokens.
    for (std::int64_t t = 0; t < kTokens; ++t)
      index.push_back(t % 3 == 1 ? static_cast<std::int32_t>((t / 3 + 2) % kRows) : -1);
    rows = values(kRows, 1);
    features = values(kRows * kLayers, 3);
  }

  std::vector<float> values(std::int64_t count, unsigned seed) const {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 0.5F);
    std::vector<float> out(static_cast<std::size_t>(count * model.hidden_size()));
    for (float& value : out) value = normal(random);
    return out;
  }

  // Copies the rows from the token table, and returns the text with the tokens of these rows.
  Rows take_rows_of_table() {
    const int table = model.parameters().find("embed.weight");
    const auto* embeddings = floats(weights.pointers()[static_cast<std::size_t>(table)]);
    Rows plain = text;
    for (std::size_t t = 0; t < index.size(); ++t) {
      if (index[t] < 0) continue;
      const std::int32_t id = 5 + 2 * index[t];
      plain.ids[t] = id;
      text.ids[t] = 0;
      std::copy_n(embeddings + id * model.hidden_size(), model.hidden_size(),
                  rows.begin() + index[t] * model.hidden_size());
    }
    return plain;
  }

  std::vector<float> forward_with(const decoder::Model& of, std::vector<float> features_of,
                                  std::int64_t layers) {
    program::BoundProgram program(
        of.forward_graph({.tokens = kTokens},
                         {.embedding_overrides = {.count = kRows, .layers = layers}}),
        cpu::cpu_backend());
    program.bind_parameters(weights.pointers());
    program.bind(Input::tokens, text.ids.data());
    program.bind(Input::positions, text.positions.data());
    program.bind(Input::embedding_overrides, rows.data());
    program.bind(Input::override_index, index.data());
    program.bind(Input::image_blocks, blocks.data());
    program.bind(Input::deepstack_features, features_of.data());
    std::vector<float> logits(static_cast<std::size_t>(kTokens * of.vocab_size()));
    program.bind(Output::logits, logits.data());
    auto arena = cpu::cpu_backend().allocate(program.arena_bytes());
    program.run(*arena);
    return logits;
  }

  static constexpr std::int64_t kTokens = 18, kRows = 6, kLayers = 2;
  std::filesystem::path path;
  decoder::Model model;
  weights::Weights weights;
  Rows text;
  std::vector<std::int32_t> index, blocks = std::vector<std::int32_t>(kTokens);
  std::vector<float> rows, features;
};

TEST_P(EmbeddingOverrides, RowsOfTheTableAreAsTheirTokens) {
  const Rows plain = take_rows_of_table();
  const std::vector<float> want = forward(model, weights.pointers(), plain);
  EXPECT_LE(relative_difference(forward_with(model, {}, 0), want), 1e-6);
  const std::vector<float> nothing(features.size());
  EXPECT_LE(relative_difference(forward_with(model, nothing, kLayers), want), 1e-6);
  EXPECT_GT(relative_difference(forward_with(model, features, kLayers), want), 1e-3);
}

TEST_P(EmbeddingOverrides, ScannedAndUnrolledAreTheSame) {
  decoder::Model unrolled = open_model(path, false);
  for (std::int64_t layers : {std::int64_t{1}, kLayers, model.config().num_layers()}) {
    const std::vector<float> all = values(kRows * layers, 4);
    EXPECT_LE(
        relative_difference(forward_with(unrolled, all, layers), forward_with(model, all, layers)),
        1e-6)
        << layers;
  }
}

TEST_P(EmbeddingOverrides, PrefillInAnyPiecesEqualsForward) {
  const std::vector<float> logits = forward_with(model, features, kLayers);
  const auto want = std::span(logits).last(static_cast<std::size_t>(model.vocab_size()));
  for (std::int64_t call_tokens : {std::int64_t{1}, std::int64_t{5}, kTokens}) {
    decode::Session session(model, weights.pointers(),
                            {.capacity = kTokens + 4, .call_tokens = call_tokens},
                            cpu::cpu_backend());
    std::span<const float> got =
        session.append(text.ids, {.rows = rows, .index = index, .features = features});
    EXPECT_LE(relative_difference(got, want), 1e-4) << "pieces of " << call_tokens;
    // Text before and after the rows.
    session.reset();
    session.append(std::span(text.ids).first(1));
    session.append(std::span(text.ids).subspan(1, 10),
                   {.rows = rows, .index = std::span(index).subspan(1, 10), .features = features});
    got =
        session.append(std::span(text.ids).subspan(11),
                       {.rows = rows, .index = std::span(index).subspan(11), .features = features});
    EXPECT_LE(relative_difference(got, want), 1e-4) << "pieces of " << call_tokens;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EmbeddingOverrides,
                         ::testing::Values("llama2_deep", "qwen3_vl_text", "qwen3_5",
                                           "olmo3_as_maxtext", "deepseek_streams"),
                         [](const auto& test) { return std::string(test.param); });

// A training step with features of the first layers: equal gradients for every remat policy and
// every placement of layers.
class TrainedFeatures : public EmbeddingOverrides {
 protected:
  std::vector<std::vector<float>> gradients(const decoder::Model& of, const std::string& remat) {
    train::TrainStepOptions options;
    options.shape.tokens = kTokens;
    options.features.embedding_overrides = {.count = kRows, .layers = kLayers};
    options.remat = remat;
    const auto state = load_state({GetParam(), path}, of);
    const program::OverrideRows overrides{.rows = std::as_bytes(std::span(rows)).data(),
                                          .features = std::as_bytes(std::span(features)).data(),
                                          .index = index.data(),
                                          .blocks = blocks.data()};
    program::Microbatch batch = text.microbatch();
    batch.overrides = &overrides;
    train::TrainStep step(of, *state, options, {}, cpu::cpu_backend());
    step.gradients(std::array{batch}, 0);
    return copy_of(of, state->gradients());
  }
};

TEST_P(TrainedFeatures, LeadToTheSameGradients) {
  const auto want = gradients(model, "none");
  const auto again = gradients(model, "full");
  const auto apart = gradients(open_model(path, false), "none");
  for (std::size_t p = 0; p < want.size(); ++p) {
    const std::string& name = model.parameters().all()[p].name;
    EXPECT_LE(relative_difference(again[p], want[p]), 1e-6) << name;
    EXPECT_LE(relative_difference(apart[p], want[p]), 1e-5) << name;
  }
  std::ranges::fill(features, 0.0F);
  const auto without = gradients(model, "none");
  double changed = 0;
  for (std::size_t p = 0; p < want.size(); ++p)
    changed = std::max(changed, relative_difference(without[p], want[p]));
  EXPECT_GT(changed, 1e-3);
}

INSTANTIATE_TEST_SUITE_P(All, TrainedFeatures,
                         ::testing::Values("llama2_deep", "qwen3_vl_text", "deepseek_streams"),
                         [](const auto& test) { return std::string(test.param); });

// Blocks that read later tokens get the override rows of those tokens.
class PredictedImages : public EmbeddingOverrides {
 protected:
  std::vector<float> predictions(const Rows& of, decoder::EmbeddingOverrideShape overrides) {
    program::BoundProgram program(
        model.forward_graph({.tokens = kTokens}, {.embedding_overrides = overrides, .mtp = true}),
        cpu::cpu_backend());
    std::vector<float> main(static_cast<std::size_t>(kTokens * model.vocab_size())),
        logits(main.size() * static_cast<std::size_t>(model.mtp_depth())),
        hidden(logits.size() * static_cast<std::size_t>(model.hidden_size()));
    std::vector<float> normed(hidden.size());
    program.bind_parameters(weights.pointers());
    of.microbatch().bind(program);
    program.bind(Input::embedding_overrides, rows.data());
    program.bind(Input::override_index, index.data());
    program.bind(Output::logits, main.data());
    program.bind(Output::mtp_hidden, hidden.data());
    program.bind(Output::mtp_normed, normed.data());
    program.bind(Output::mtp_logits, logits.data());
    auto arena = cpu::cpu_backend().allocate(program.arena_bytes());
    program.run(*arena);
    return logits;
  }
};

TEST_P(PredictedImages, AreTheRowsOfTheirTokens) {
  const Rows plain = take_rows_of_table();
  EXPECT_LE(relative_difference(predictions(text, {.count = kRows}), predictions(plain, {})), 1e-5);
  EXPECT_GT(relative_difference(predictions(text, {}), predictions(plain, {})), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(All, PredictedImages, ::testing::Values("features_mtp", "features_losses"),
                         [](const auto& test) { return std::string(test.param); });

// Models in which the tokens of an image attend to each other in both directions.
class SeenImages : public EmbeddingOverrides {
 protected:
  // Two images, of four and of two tokens.
  SeenImages() {
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const std::int64_t row = t >= 3 && t < 7 ? t - 3 : t >= 11 && t < 13 ? t - 7 : -1;
      index[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(row);
      blocks[static_cast<std::size_t>(t)] = row < 0 ? 0 : row < 4 ? 1 : 2;
    }
  }
  // The tokens whose logits depend on that override row.
  std::vector<std::int64_t> changed_by(std::int64_t row) {
    const std::vector<float> before = forward_with(model, {}, 0);
    rows[static_cast<std::size_t>(row * model.hidden_size())] += 1;
    const std::vector<float> after = forward_with(model, {}, 0);
    rows[static_cast<std::size_t>(row * model.hidden_size())] -= 1;
    const std::size_t vocab = static_cast<std::size_t>(model.vocab_size());
    std::vector<std::int64_t> out;
    for (std::size_t t = 0; t < kTokens; ++t)
      if (!same_bits(std::span(before).subspan(t * vocab, vocab),
                     std::span(after).subspan(t * vocab, vocab)))
        out.push_back(static_cast<std::int64_t>(t));
    return out;
  }
};

TEST_P(SeenImages, ChangeTheirEarlierTokensToo) {
  EXPECT_EQ(changed_by(3).front(), 3);  // its own token is 6
  EXPECT_EQ(changed_by(5).front(), 11);
  EXPECT_EQ(changed_by(5).back(), kTokens - 1);
}

TEST_P(SeenImages, ReadInPiecesAreAsWhole) {
  const std::vector<float> logits = forward_with(model, features, kLayers);
  const auto want = std::span(logits).last(static_cast<std::size_t>(model.vocab_size()));
  const decode::EmbeddingOverrides overrides{.rows = rows, .index = index, .features = features};
  for (std::int64_t call_tokens : {std::int64_t{4}, std::int64_t{5}, std::int64_t{12}, kTokens}) {
    decode::Session session(model, weights.pointers(),
                            {.capacity = kTokens, .call_tokens = call_tokens}, cpu::cpu_backend());
    EXPECT_LE(relative_difference(session.append(text.ids, overrides), want), 1e-4)
        << "pieces of " << call_tokens;
  }
  decode::Session session(model, weights.pointers(), {.capacity = kTokens, .call_tokens = 3},
                          cpu::cpu_backend());
  EXPECT_USER_ERROR(session.append(text.ids, overrides), ExitCode::usage,
                    "images: the tokens of an image see each other, and it has more tokens than a "
                    "call can read (3)\n  raise the maximum tokens per call");
}

INSTANTIATE_TEST_SUITE_P(All, SeenImages, ::testing::Values("gemma3_window", "gemma4_dense"),
                         [](const auto& test) { return std::string(test.param); });

TEST(EmbeddingOverrideErrors, ThreePositionsAreForModelsThatTakeThem) {
  const TestModel& from = test_model("llama2_deep");
  decoder::Model model = open_model(from.path);
  weights::Weights weights = load_weights(from, model);
  decode::Session session(model, weights.pointers(), {.capacity = 8}, cpu::cpu_backend());
  const std::vector<std::int32_t> tokens = {1}, index = {0}, positions = {0, 0, 0};
  const std::vector<float> rows(static_cast<std::size_t>(model.hidden_size()));
  EXPECT_USER_ERROR(session.append(tokens, {.rows = rows, .index = index, .positions = positions}),
                    ExitCode::usage,
                    "images: this model's tokens have one position each, not three\n"
                    "  give the images without positions");
}

TEST(EmbeddingOverrideErrors, NameTheConflict) {
  const TestModel& from = test_model("qwen3_vl_text");
  decoder::Model model = open_model(from.path);  // 24 wide, 3 layers
  weights::Weights weights = load_weights(from, model);
  decode::Session session(model, weights.pointers(), {.capacity = 8}, cpu::cpu_backend());
  const std::vector<std::int32_t> tokens = {1, 2, 3}, index = {-1, 1, 0}, beyond = {-1, 2, 0};
  const std::vector<float> rows(48), odd(50), many(4 * 48);
  EXPECT_USER_ERROR(session.append(tokens, {.rows = odd, .index = index}), ExitCode::data,
                    "images: got 50 numbers for their rows\n"
                    "  expected 24 per row, the width of the model");
  EXPECT_USER_ERROR(session.append(tokens, {.rows = rows, .index = beyond}), ExitCode::data,
                    "images: a token refers to row 2 of 2\n"
                    "  expected 0 to 1, or -1 for none");
  EXPECT_USER_ERROR(session.append(tokens, {.rows = rows, .index = std::span(index).first(2)}),
                    ExitCode::data,
                    "images: got 2 rows of tokens for 3 tokens\n"
                    "  expected one index per token, or -1");
  EXPECT_USER_ERROR(session.append(tokens, {.rows = rows, .index = index, .features = many}),
                    ExitCode::data,
                    "images: got 192 numbers for features\n"
                    "  each of at most 3 layers needs 48, as many as the rows");
  EXPECT_USER_ERROR(session.append(tokens, {.rows = rows, .index = index, .positions = index}),
                    ExitCode::data,
                    "images: got 3 positions for 3 tokens\n"
                    "  expected three per token: time, height and width");
  EXPECT_EQ(session.length(), 0);
}

}  // namespace
}  // namespace lamina::testing
