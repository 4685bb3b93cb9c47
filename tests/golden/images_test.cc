// Models given what a tower made of images, against Hugging Face: every folder of hf whose golden
// numbers hold image.embeddings.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "backends/cpu/backend.h"
#include "cli/verify/case.h"
#include "decode/session.h"
#include "decoder/bound_program.h"
#include "support/expect_error.h"
#include "support/goldens.h"
#include "support/models.h"
#include "train/gradients.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;
using decoder::Role;

std::vector<fs::path> cases_with_images() {
  std::vector<fs::path> out;
  for (const fs::path& folder : golden_folders("hf", "golden.safetensors"))
    if (io::WeightFiles((folder / "golden.safetensors").string()).contains("image.embeddings"))
      out.push_back(folder);
  return out;
}

class Images : public ::testing::TestWithParam<fs::path> {
 protected:
  Images()
      : case_(GetParam().string()),
        tokens_(case_.ints("image.input_ids")),
        positions_(case_.ints("image.position_ids")),
        rows_(case_.floats("image.embeddings")) {
    const Shape shape = case_.shape("image.input_ids");
    batch_ = shape[0];
    length_ = shape[1];
    const JsonDocument config =
        JsonDocument::read((GetParam() / "config.json").string(), {.code = ExitCode::checkpoint});
    const std::int64_t placeholder = config.root().at("image_token_id").as_int64();
    std::int32_t next = 0;
    for (std::int32_t token : tokens_) index_.push_back(token == placeholder ? next++ : -1);
    for (int l = 0; case_.has(fmt::format("image.deepstack.{}", l)); ++l) {
      std::vector<float> more = case_.floats(fmt::format("image.deepstack.{}", l));
      features_.insert(features_.end(), more.begin(), more.end());
    }
    given_.count = next;
    given_.layers = static_cast<std::int64_t>(features_.size() / rows_.size());
  }

  void bind(decoder::BoundProgram& program) {
    program.bind(Role::tokens, tokens_.data());
    program.bind(Role::positions_3d, positions_.data());
    program.bind(Role::given_rows, rows_.data());
    program.bind(Role::given_index, index_.data());
    program.bind(Role::given_features, features_.data());
  }

  void expect_near(const std::string& quantity, std::span<const float> got, double tolerance) {
    const std::vector<float> want = case_.floats(quantity);
    EXPECT_LE(cli::max_abs_difference(got, want), tolerance * cli::max_abs(want)) << quantity;
  }

  cli::GoldenCase case_;
  std::vector<std::int32_t> tokens_, positions_, index_;
  std::vector<float> rows_, features_;
  std::int64_t batch_ = 0, length_ = 0;
  decoder::GivenRows given_;
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Images);  // the tree holds a choice of cases

// Golden hidden states are what layers give before features are added behind them.
TEST_P(Images, HiddenStatesAndLogitsAreTheReferences) {
  for (bool scan_layers : {true, false}) {
    decoder::Model model = open_model(GetParam(), scan_layers);
    decoder::Weights weights = load_weights({"images", GetParam()}, model);
    decoder::BoundProgram program(model.forward_graph({.batch = batch_,
                                                       .tokens = length_,
                                                       .hidden = true,
                                                       .positions_3d = true,
                                                       .given = given_}),
                                  cpu::cpu_backend());
    bind(program);
    program.bind_parameters(weights.pointers());
    std::vector<float> logits(tokens_.size() * static_cast<std::size_t>(model.vocab_size()));
    program.bind(Role::logits, logits.data());
    std::vector<std::vector<float>> hidden(
        static_cast<std::size_t>(model.config().num_layers()) + 1,
        std::vector<float>(program.hidden_bytes() / sizeof(float)));
    std::vector<void*> pointers;
    for (auto& layer : hidden) pointers.push_back(layer.data());
    program.bind_hidden(pointers);
    auto arena = cpu::cpu_backend().allocate(program.arena_bytes());
    program.run(arena->data());
    expect_near("image.hidden.embed", hidden[0], 1e-6);
    for (std::size_t l = 0; l + 1 < hidden.size(); ++l)
      expect_near(fmt::format("image.hidden.{}", l), hidden[l + 1], 2e-5);
    expect_near("image.logits", logits, 1e-4);
  }
}

TEST_P(Images, GradientsAreTheReferences) {
  decoder::Model model = open_model(GetParam());
  auto state = load_state({"images", GetParam()}, model);
  decoder::ModelGraph loss = model.loss_graph({.batch = batch_,
                                               .tokens = length_,
                                               .training = true,
                                               .positions_3d = true,
                                               .given = given_});
  decoder::BoundProgram program(
      train::add_gradients(std::move(loss), model.parameters(),
                           autodiff::find_remat_policy("full", {}).save_policy()),
      cpu::cpu_backend());
  bind(program);
  // Theirs are aligned with the tokens, ours with those before.
  std::vector<std::int32_t> labels = case_.ints("image.labels");
  float count = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const bool last = (i + 1) % static_cast<std::size_t>(length_) == 0;
    labels[i] = last ? -100 : labels[i + 1];
    count += labels[i] >= 0 ? 1.F : 0.F;
  }
  float loss_scale = 1 / count, z_loss_scale = 0, sum = 0, z_loss = 0;
  program.bind(Role::labels, labels.data());
  program.bind(Role::loss_scale, &loss_scale);
  program.bind(Role::z_loss_scale, &z_loss_scale);
  program.bind(Role::loss, &sum);
  program.bind(Role::z_loss, &z_loss);
  program.bind_parameters(state->used());
  program.bind_gradients(state->gradients());
  auto arena = cpu::cpu_backend().allocate(program.arena_bytes());
  program.run(arena->data());
  EXPECT_NEAR(sum / count, case_.floats("image.loss")[0], 1e-5);

  const decoder::TensorMap map = decoder::published_tensors(model);
  int compared = 0;
  for (const decoder::PublishedTensor& tensor : map.tensors()) {
    // Ours are spelled as where there are no images.
    const std::string inner = tensor.name.substr(tensor.name.find('.') + 1);
    const std::string theirs = "image.grad.model.language_model." + inner;
    if (!case_.has(theirs)) continue;  // of large tensors there are samples
    ASSERT_EQ(tensor.pieces.size(), 1u);
    const int p = map.pieces()[static_cast<std::size_t>(tensor.pieces.front())].parameter;
    const auto* ours = static_cast<const float*>(state->gradients()[static_cast<std::size_t>(p)]);
    expect_near(theirs, {ours, static_cast<std::size_t>(model.parameters()[p].num_elements())},
                2e-4);
    ++compared;
  }
  EXPECT_GE(compared, 4);
}

// A prompt with the first image, in pieces of any size, then greedy tokens.
TEST_P(Images, APromptInPiecesGoesOnAsTheReferences) {
  decoder::Model model = open_model(GetParam());
  decoder::Weights weights = load_weights({"images", GetParam()}, model);
  const std::vector<std::int32_t> prompt = case_.ints("image.prompt_ids"),
                                  greedy = case_.ints("image.greedy_ids");
  ASSERT_TRUE(std::equal(prompt.begin(), prompt.end(), tokens_.begin()));
  std::vector<std::int32_t> positions;
  for (std::ptrdiff_t axis = 0; axis < 3; ++axis)
    positions.insert(
        positions.end(), positions_.begin() + axis * batch_ * length_,
        positions_.begin() + axis * batch_ * length_ + static_cast<std::ptrdiff_t>(prompt.size()));
  const decode::Given given{.rows = rows_,
                            .index = std::span(index_).first(prompt.size()),
                            .features = features_,
                            .positions = positions};
  for (std::int64_t call_tokens : {64, 7, 1}) {
    decode::Session session(model, weights.pointers(), {.capacity = 64, .call_tokens = call_tokens},
                            cpu::cpu_backend());
    for (int time = 0; time < 2; ++time) {  // also after a reset
      session.reset();
      std::span<const float> logits = session.append(prompt, given);
      for (std::size_t i = 0; i < greedy.size(); ++i) {
        ASSERT_EQ(std::ranges::max_element(logits) - logits.begin(), greedy[i])
            << "token " << i << ", pieces of " << call_tokens;
        logits = session.append(std::span(&greedy[i], 1));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Images, ::testing::ValuesIn(cases_with_images()),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });

}  // namespace
}  // namespace lamina::testing
