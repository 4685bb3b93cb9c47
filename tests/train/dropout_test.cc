// Dropout of layers and of attention probabilities: keys of the host for every family.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "backends/cpu/backend.h"
#include "conformance/numbers/finite_differences.h"
#include "conformance/numbers/training.h"
#include "graph/rewrite.h"
#include "ops/op_code.h"
#include "program/bound_program.h"
#include "program/records.h"
#include "support/expect_error.h"
#include "support/goldens.h"
#include "support/models.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

// GPT's key of that name belongs to the family, and drops at other places.
bool has_own_rate(const TestModel& model) {
  return !open_model(model.path).config().is_host_key("dropout_rate");
}

// Visits the nodes of the graph and of the bodies in it.
void for_each_node(const Graph& graph,
                   const std::function<void(const Graph&, const Node&)>& visit) {
  for (const Node& node : graph.nodes()) {
    visit(graph, node);
    for (const AttrValue& attr : node.attrs)
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&attr); body && *body)
        for_each_node(**body, visit);
  }
}

std::int64_t count(const Graph& graph, std::initializer_list<OpCode> codes) {
  std::int64_t found = 0;
  for_each_node(graph, [&](const Graph&, const Node& node) {
    found += std::ranges::find(codes, node.op->code) != codes.end();
  });
  return found;
}

decoder::ModelGraph loss_graph(const decoder::Model& model, bool training) {
  return model.loss_graph({.tokens = test_tokens(model)}, {.segments = true, .training = training});
}

bool has_attention(const TestModel& model) {
  return count(loss_graph(open_model(model.path), false).graph,
               {OpCode::attention, OpCode::latent_attention, OpCode::compressed_attention}) > 0;
}

std::string rates(const TestModel& model, double layers, double probabilities) {
  std::string out;
  if (!has_own_rate(model)) out += fmt::format("dropout_rate = {:.1f}\n", layers);
  // A prediction layer that ends with a norm has no output to drop after it.
  const registry::MtpSpec mtp = open_model(model.path).options().mtp;
  if (layers > 0 && mtp.depth > 0 && !mtp.final_norm && !has_own_rate(model))
    out += "layer_dropout = \"none\"\n";
  if (has_attention(model)) out += fmt::format("attention_dropout_rate = {:.1f}\n", probabilities);
  return out;
}

std::int64_t count_draws(const Graph& graph) { return count(graph, {OpCode::dropout}); }

class Dropout : public ::testing::TestWithParam<TestModel> {
 protected:
  // The family's model with these additional lines.
  TestModel changed(const std::string& lines) const {
    return {GetParam().name, folder_.write("model.toml", changed_text(GetParam(), lines))};
  }

 private:
  TempDir folder_;
};

TEST_P(Dropout, WithRateZeroAddsNoOpToAnyGraph) {
  const decoder::Model plain = open_model(GetParam().path),
                       none = open_changed(GetParam(), rates(GetParam(), 0, 0));
  EXPECT_TRUE(same_graph(loss_graph(none, true).graph, loss_graph(plain, true).graph));
  EXPECT_FALSE(none.has_dropout() && !plain.has_dropout());
}

TEST_P(Dropout, AppliesOnlyInTraining) {
  const decoder::Model plain = open_model(GetParam().path),
                       drops = open_changed(GetParam(), rates(GetParam(), 0.2, 0.3));
  EXPECT_TRUE(same_graph(loss_graph(drops, false).graph, loss_graph(plain, false).graph));
  const auto decoding = [](const decoder::Model& model) {
    return model.decode_graph({.tokens = 1}, {.capacity = 16, .max_call_tokens = 4}).graph;
  };
  EXPECT_TRUE(same_graph(decoding(drops), decoding(plain)));
  EXPECT_GT(count_draws(loss_graph(drops, true).graph), count_draws(loss_graph(plain, true).graph));
}

TEST_P(Dropout, HasTheGradientsOfTheSameDraws) {
  expect_conforms([](const conformance::ModelCase& c) { check_finite_differences(c, 1); },
                  changed(rates(GetParam(), 0.2, 0.3)));
}

TEST_P(Dropout, DrawsTheSameScannedUnrolledAndRecomputed) {
  const TestModel drops = changed(rates(GetParam(), 0.2, 0.3));
  expect_conforms(conformance::check_scanned_step_is_unrolled, drops);
  expect_conforms(conformance::check_remat_policies_give_the_same_bits, drops);
}

constexpr std::int64_t kTokens = 5, kWidth = 24;

// Input and output of each layer in training, [kTokens, kWidth] each.
std::vector<std::vector<float>> training_states(const std::string& keys, std::int64_t seed,
                                                std::int64_t step, bool scan_layers = true) {
  const decoder::Model model = open_description(
      "family = \"llama2\"\n[model]\nvocab_size = 61\nhidden_size = 24\nnum_hidden_layers = 2\n"
      "intermediate_size = 36\nnum_attention_heads = 4\n" +
          keys,
      scan_layers);
  const Backend& backend = cpu::cpu_backend();
  const weights::Weights weights = weights::Weights::initialise(model, 5, DType::f32, backend);
  program::BoundProgram program(
      model.forward_graph({.tokens = kTokens}, {.training = true, .hidden = true, .logits = false}),
      backend);
  const Rows rows = random_rows(model, 1, kTokens);
  program.bind_parameters(weights.pointers());
  rows.microbatch().bind(program);
  program.set(decoder::Input::seed, std::array{seed, step});
  std::vector<std::vector<float>> out(3, std::vector<float>(kTokens * kWidth));
  program.bind_hidden(tensors_of(out));
  program::run(program, backend);
  return out;
}

// Numbers of channels that are 0 for all tokens, and for some tokens only.
std::pair<int, int> zeros_of(const std::vector<float>& state) {
  int whole = 0, part = 0;
  for (std::size_t c = 0; c < kWidth; ++c) {
    int zeros = 0;
    for (std::size_t t = 0; t < kTokens; ++t) zeros += state[t * kWidth + c] == 0;
    whole += zeros == kTokens;
    part += zeros > 0 && zeros < kTokens;
  }
  return {whole, part};
}

TEST(LayerDropout, ZeroesChannelsOfAllTokensAndScalesTheOthers) {
  const auto plain = training_states("", 1, 1);
  const auto drops = training_states("dropout_rate = 0.5\n", 1, 1);
  for (const auto& state : drops) {
    const auto [whole, part] = zeros_of(state);
    EXPECT_GE(whole, 4);
    EXPECT_LE(whole, 20);
    EXPECT_EQ(part, 0);
  }
  for (std::size_t i = 0; i < plain[0].size(); ++i)
    EXPECT_TRUE(drops[0][i] == 0 || drops[0][i] == 2 * plain[0][i]) << i;
}

TEST(LayerDropout, DropsTheOutputTheUpdateOrNothing) {
  const auto update = training_states("dropout_rate = 0.5\nlayer_dropout = \"update\"\n", 1, 1);
  const auto none = training_states("dropout_rate = 0.5\nlayer_dropout = \"none\"\n", 1, 1);
  std::vector<float> added = update[1];
  for (std::size_t i = 0; i < added.size(); ++i) added[i] -= update[0][i];
  EXPECT_GE(zeros_of(added).first, 4);
  EXPECT_EQ(zeros_of(none[1]).first, 0);
  EXPECT_EQ(none[0], update[0]);
}

TEST(LayerDropout, IsAFunctionOfSeedStepAndLayer) {
  const char* keys = "dropout_rate = 0.5\nattention_dropout_rate = 0.5\n";
  const auto first = training_states(keys, 7, 3);
  EXPECT_EQ(training_states(keys, 7, 3), first);
  EXPECT_EQ(training_states(keys, 7, 3, false), first);
  EXPECT_NE(training_states(keys, 8, 3)[0], first[0]);
  EXPECT_NE(training_states(keys, 7, 4)[0], first[0]);
  const auto kept = [](const std::vector<float>& state) {
    std::vector<bool> out;
    for (std::size_t c = 0; c < kWidth; ++c) out.push_back(state[c] != 0);
    return out;
  };
  EXPECT_NE(kept(first[1]), kept(first[2]));
}

TEST(LayerDropout, ZeroesAttentionProbabilitiesPerToken) {
  const char* keys = "attention_dropout_rate = 0.5\n";
  const auto plain = training_states("", 1, 1), drops = training_states(keys, 1, 1);
  EXPECT_EQ(drops[0], plain[0]);
  EXPECT_NE(drops[1], plain[1]);
  // The first token attends only to itself: a head gives twice its value or zero.
  EXPECT_EQ(zeros_of(drops[1]).first, 0);
}

TEST(LayerDropout, IsDrawnForEachTokenOfResidualStreams) {
  const decoder::Model model = open_changed(test_model("deepseek_streams"), "dropout_rate = 0.2\n");
  int draws = 0;
  for_each_node(loss_graph(model, true).graph, [&](const Graph& graph, const Node& node) {
    if (node.op->code != OpCode::dropout) return;
    const Type& type = graph.type(node.inputs[0]);
    if (type.ndim() != 4) return;
    EXPECT_EQ(type.shape, (Shape{1, test_tokens(model), 1, 24}));
    ++draws;
  });
  EXPECT_GT(draws, 0);
}

TEST(LayerDropout, WhereItCannotBeIsRefused) {
  const auto with = [](const std::string& family, const std::string& more) {
    return open_description("family = \"" + family +
                            "\"\n[model]\nvocab_size = 61\nhidden_size = 24\n"
                            "num_hidden_layers = 2\nnum_attention_heads = 4\n" +
                            more);
  };
  EXPECT_ERROR_SAYS(with("llama2", "intermediate_size = 36\nlayer_dropout = \"update\"\n"),
                    ExitCode::usage,
                    "'model.layer_dropout' is \"update\", but 'dropout_rate' is 0\n  remove it");
  EXPECT_ERROR_SAYS(
      with("gpt3", "layer_dropout = \"none\"\n"), ExitCode::usage,
      "'model.layer_dropout' is \"none\", but the 'dropout_rate' of this model is its "
      "family's own, which says where");
  EXPECT_ERROR_SAYS(with("llama2",
                         "intermediate_size = 36\ndropout_rate = 0.1\n"
                         "num_nextn_predict_layers = 1\nlayer_dropout = \"update\"\n"),
                    ExitCode::usage,
                    "layers of multi-token prediction have no input that it could add to\n"
                    "  set 'layer_dropout' to \"none\", or 'dropout_rate' to 0.0");
  EXPECT_ERROR_SAYS(with("llama2",
                         "intermediate_size = 36\ndropout_rate = 0.1\n"
                         "num_nextn_predict_layers = 1\nmtp_own_norm = true\n"),
                    ExitCode::usage,
                    "'model.dropout_rate' is 0.1, but layers of multi-token prediction end with a "
                    "norm, which comes after the dropout\n"
                    "  set 'layer_dropout' to \"none\", or 'dropout_rate' to 0.0");
  EXPECT_ERROR_SAYS(with("llama2", "intermediate_size = 36\ndropout_rate = 1.0\n"), ExitCode::usage,
                    "'model.dropout_rate' must be a number, at least 0 and less than 1, got 1.0");
  EXPECT_ERROR_SAYS(
      open_description("family = \"simple\"\n[model]\nvocab_size = 61\n"
                       "hidden_size = 24\nnum_hidden_layers = 2\n"
                       "attention_dropout_rate = 0.1\n"),
      ExitCode::usage,
      "'model.attention_dropout_rate' is 0.1, but no layer of this model has attention");
}

INSTANTIATE_TEST_SUITE_P(Families, Dropout, ::testing::ValuesIn(one_model_of_each_family()),
                         [](const auto& test) { return test_name(test.param.name); });

}  // namespace
}  // namespace lamina::testing
