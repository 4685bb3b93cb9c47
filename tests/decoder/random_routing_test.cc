// The host's [model] key for random routing in training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "decoder/graph/trace_block.h"
#include "support/expect_error.h"
#include "support/models.h"
#include "support/run_graph.h"

namespace lamina::testing {
namespace {

constexpr std::int64_t kRows = 4, kTokens = 128, kExperts = 8, kChosen = 2;

using Values = std::map<std::string, std::vector<double>>;

// The choice of a single mixture of experts with these keys.
Values chosen(const std::string& keys, bool training, double seed) {
  const decoder::Model model =
      open_description("family = \"moe_case\"\n[model]\nexperts = 8\nper_token = 2\n" + keys);
  decoder::TracePhase phase{
      {.batch = kRows, .tokens = kTokens}, {.training = training, .aux = true}, {}};
  phase.hidden_size = model.hidden_size();
  phase.num_layers = 1;
  phase.carries = {phase.activations()};
  phase.options.random_routing = keys.find("use_random_routing") != keys.npos;
  const decoder::BlockGraph block = decoder::trace_block(
      model.family(), model.config(), {.block = 1, .overrides = {}}, nullptr, phase);
  std::vector<Array> inputs;
  std::mt19937 random(3);
  for (const GraphInput& input : block.graph.inputs()) {
    const Type& type = block.graph.type(input.value);
    if (input.name == "seed")
      inputs.push_back(array(type, {seed, 0}));
    else if (input.name == "segments")  // no token is padding
      inputs.push_back(array(type, std::vector<double>(kRows * kTokens, 1)));
    else
      inputs.push_back(is_floating(type.dtype) ? random_array(type, random) : zeros(type));
  }
  const std::vector<Array> got = run(block.graph, inputs);
  Values out;
  for (const char* name : {"logits", "ids", "weights", "expert_tokens"})
    out[name] = to_doubles(output_named(block.graph, got, name));
  return out;
}

TEST(RandomRouting, ChoosesExpertsAlikeAndWeighsThemByTheirLogits) {
  const Values got = chosen("use_random_routing = true\n", true, 5);
  const double mean = double{kRows * kTokens * kChosen} / kExperts;
  const double deviation = std::sqrt(mean * (1 - double{kChosen} / kExperts));
  for (double count : got.at("expert_tokens")) EXPECT_NEAR(count, mean, 5 * deviation);
  const std::vector<double>& logits = got.at("logits");
  for (std::size_t t = 0; t < kRows * kTokens; ++t) {
    const double *ids = &got.at("ids")[t * kChosen], *weights = &got.at("weights")[t * kChosen];
    EXPECT_NE(ids[0], ids[1]);
    const double a = std::exp(logits[t * kExperts + static_cast<std::size_t>(ids[0])]),
                 b = std::exp(logits[t * kExperts + static_cast<std::size_t>(ids[1])]);
    EXPECT_NEAR(weights[0], a / (a + b), 1e-5);
    EXPECT_NEAR(weights[1], b / (a + b), 1e-5);
  }
}

TEST(RandomRouting, IsAFunctionOfTheSeed) {
  const auto ids = [](double seed) {
    return chosen("use_random_routing = true\n", true, seed).at("ids");
  };
  EXPECT_EQ(ids(5), ids(5));
  EXPECT_NE(ids(5), ids(6));
}

// For every choice: by scores, with a correction, in groups of experts.
TEST(RandomRouting, AppliesOnlyInTraining) {
  for (const char* router :
       {"", "scores = \"softmax\"\nweights = \"scores\"\n", "correction_bias = true\n",
        "scores = \"sigmoid\"\ncorrection_bias = true\ngroups = 4\ngroups_kept = 2\n"}) {
    SCOPED_TRACE(router);
    const std::string random = router + std::string("use_random_routing = true\n");
    EXPECT_EQ(chosen(random, false, 5), chosen(router, false, 5));
    EXPECT_NE(chosen(random, true, 5).at("ids"), chosen(router, true, 5).at("ids"));
  }
}

TEST(RandomRouting, WorksInEveryFamilyWithARouter) {
  int routed = 0;
  for (const TestModel& model : one_model_of_each_family()) {
    SCOPED_TRACE(model.name);
    const decoder::Model plain = open_model(model.path);
    const decoder::GraphFeatures training{.training = true};
    try {
      const decoder::Model other = open_changed(model, "use_random_routing = true\n");
      EXPECT_FALSE(same_graph(other.loss_graph({.tokens = 8}, training).graph,
                              plain.loss_graph({.tokens = 8}, training).graph));
      EXPECT_TRUE(same_graph(other.forward_graph({.tokens = 8}).graph,
                             plain.forward_graph({.tokens = 8}).graph));
      ++routed;
    } catch (const UserError& refused) {
      EXPECT_THAT(refused.what(), ::testing::HasSubstr("no layer of this model has a router"));
    }
  }
  EXPECT_GE(routed, 6);
}

}  // namespace
}  // namespace lamina::testing
