// Next tokens on the emulated GPU: shortlists give the tokens of whole rows, which stay on the GPU.
#include <gtest/gtest.h>

#include <cmath>

#include "cuda/gpu.h"
#include "decode/generate.h"
#include "ops/tensor.h"
#include "support/device_models.h"
#include "support/expect_error.h"
#include "support/run_graph.h"
#include "support/sampling_cases.h"

namespace lamina::testing {
namespace {

using cuda::emulation::driver_counts;
using decode::LikeliestTokens;
using decode::Sampler;
using decode::SamplerOptions;
using decode::ShortlistShape;

Array row_array(const std::vector<float>& row) {
  return array({DType::f32, {1, std::ssize(row)}, {}}, Doubles(row.begin(), row.end()));
}

template <typename T>
std::vector<T> elements(const Array& a) {
  std::vector<T> out;
  for (const double x : to_doubles(a)) out.push_back(static_cast<T>(x));
  return out;
}

// The shortlist that the GPU makes of a row.
struct GpuList {
  std::vector<float> logits;
  std::vector<std::int32_t> ids;
  decode::Shortlist list;

  GpuList(const std::vector<float>& row, const ShortlistShape& shape, double temperature,
          double draw) {
    Graph graph;
    std::vector<Array> inputs = {row_array(row), array({DType::f64, {}, {}}, {temperature})};
    const Tensor in = graph.add_input("logits", inputs[0].type),
                 rate = graph.add_input("temperature", inputs[1].type);
    if (shape.likeliest > 0) {
      const auto best = ops::likeliest_tokens(in, rate, {.k = shape.likeliest});
      graph.add_output("values", best.values);
      graph.add_output("ids", best.ids);
      graph.add_output("weight", best.weight);
      const std::vector<Array> got = run(graph, inputs, test_gpu());
      logits = elements<float>(got[0]);
      ids = elements<std::int32_t>(got[1]);
      list = LikeliestTokens{
          .logits = logits, .ids = ids, .weight = to_doubles(got[2])[0], .vocab = std::ssize(row)};
      return;
    }
    inputs.push_back(array({DType::f64, {1}, {}}, {draw}));
    const auto group = ops::tokens_at_draw(in, rate, graph.add_input("draws", inputs.back().type));
    graph.add_output("values", group.values);
    graph.add_output("first", group.first);
    graph.add_output("before", group.before);
    graph.add_output("largest", group.largest);
    graph.add_output("weight", group.weight);
    const std::vector<Array> got = run(graph, inputs, test_gpu());
    logits = elements<float>(got[0]);
    list = decode::TokensAtDraw{.logits = logits,
                                .first = elements<std::int32_t>(got[1])[0],
                                .before = to_doubles(got[2])[0],
                                .largest = elements<float>(got[3])[0],
                                .weight = to_doubles(got[4])[0],
                                .vocab = std::ssize(row)};
  }
  double weight() const {
    return std::visit([](const auto& of) { return of.weight; }, list);
  }
};

TEST(CudaSampling, ListsOfTheGpuGiveTheTokensOfWholeRows) {
  std::mt19937 random(11);
  const std::vector<std::int32_t> tokens = {2, 5, 2};
  int decided = 0;
  for (const LogitsForm form : kLogitsForms)
    for (const std::size_t vocab : {5u, 300u, 4096u, 9001u})
      for (int i = 0; i < 6; ++i) {
        const std::vector<float> row = random_logits(random, form, vocab);
        const SamplerOptions options = random_sampler(random, static_cast<std::int32_t>(vocab));
        const ShortlistShape shape = shortlist_shape(options, std::ssize(row));
        if (shape.is_whole()) continue;
        Sampler sampler(options);
        const GpuList made(row, shape, options.temperature, sampler.uniform(3));
        const auto token = sampler.sample(made.list, 3, tokens, 1);
        if (!token) continue;
        ++decided;
        EXPECT_EQ(*token, sampler.sample(row, 3, tokens, 1));
      }
  EXPECT_GT(decided, 60);
}

TEST(CudaSampling, TheWeightOfARowIsNaNIfItsLogitsAreNotNumbers) {
  for (const std::size_t vocab : {3u, 5000u})
    for (const float wrong : {std::nanf(""), INFINITY})
      for (const std::size_t at : {std::size_t{0}, vocab - 1}) {
        std::vector<float> row(vocab, 1.0f);
        row[at] = wrong;
        EXPECT_TRUE(std::isnan(GpuList(row, {.likeliest = 1}, 0, 0).weight()));
        EXPECT_TRUE(std::isnan(GpuList(row, {.likeliest = 3}, 1, 0).weight()));
        EXPECT_TRUE(std::isnan(GpuList(row, {.at_draw = true}, 1, 0.5).weight()));
      }
  const std::vector<float> nothing(5000, -INFINITY);
  EXPECT_TRUE(std::isnan(GpuList(nothing, {.likeliest = 2}, 1, 0).weight()));
  EXPECT_TRUE(std::isnan(GpuList(nothing, {.at_draw = true}, 1, 0.5).weight()));
}

// A model with a vocabulary of several parts of the kernels.
class CudaNextToken : public ::testing::Test {
 protected:
  static constexpr std::int64_t kVocab = 5003;
  const decoder::Model model = open_description(
      "family = \"llama2\"\n[model]\nvocab_size = 5003\nhidden_size = 16\n"
      "intermediate_size = 24\nnum_hidden_layers = 2\nnum_attention_heads = 2\n");
  const weights::Weights weights = weights_on(emulated_gpu(), model, DType::f32);
  const std::vector<std::int32_t> prompt = {1, 17, 4000, 5};

  decode::Session session() const {
    return decode::Session(model, weights.pointers(), {.capacity = 64}, emulated_gpu());
  }
  std::vector<std::int32_t> generated(const SamplerOptions& sampler, std::int64_t logprobs = 0) {
    decode::Session session = this->session();
    return decode::generate(session, prompt, nullptr,
                            {.max_new_tokens = 6, .sampler = sampler, .num_logprobs = logprobs},
                            [](std::string_view) {})
        .tokens;
  }
};

// With log probabilities whole rows reach the host.
TEST_F(CudaNextToken, GeneratedTokensAreTheTokensOfWholeRows) {
  for (const SamplerOptions& options : std::vector<SamplerOptions>{
           {.temperature = 0},
           {.temperature = 1, .seed = 3},
           {.temperature = 0.05, .top_k = 20, .seed = 4},
           {.temperature = 0.05, .top_p = 0.8, .seed = 5},
           {.temperature = 2, .top_p = 0.999, .seed = 6},
           {.repetition_penalty = 1.2, .temperature = 0},
           {.repetition_penalty = 1.2, .repeat_last_n = 2, .temperature = 0},
           {.logit_bias = {{3000, 9.0}}, .temperature = 0.7, .seed = 7},
           {.no_repeat_ngram = 2, .forced_first = {8}, .temperature = 1, .seed = 8}})
    EXPECT_EQ(generated(options), generated(options, 1));
}

// The bytes per token of a session that reads shortlists of this shape.
std::int64_t bytes_per_token(decode::Session& session, const ShortlistShape& shape) {
  session.set_shortlists(shape);
  const double draw = 0.25;
  const auto append = [&](std::int32_t id) {
    if (session.has_shortlists()) session.set_draws(1, std::span(&draw, 1));
    session.append(std::span<const std::int32_t>(&id, 1));
  };
  constexpr int kTokens = 4;
  for (int i = 0; i < 3; ++i) append(i);
  const auto before = driver_counts();
  for (int i = 0; i < kTokens; ++i) append(i);
  const auto after = driver_counts();
  EXPECT_EQ(after.replays - before.replays, kTokens);
  EXPECT_EQ(after.waits - before.waits, kTokens);
  EXPECT_EQ(after.launches, before.launches);
  EXPECT_EQ(after.allocations, before.allocations);
  return (after.bytes_to_host - before.bytes_to_host) / kTokens;
}

TEST_F(CudaNextToken, AStepIsOneReplayAndOneWaitAndCopiesAListOnly) {
  decode::Session session = this->session();
  // Each output begins at a multiple of 64 bytes.
  EXPECT_EQ(bytes_per_token(session, {.likeliest = 1}), 3 * 64);
  EXPECT_EQ(bytes_per_token(session, {.likeliest = 128}), 2 * 512 + 64);
  EXPECT_EQ(bytes_per_token(session, {.at_draw = true}), 1024 + 4 * 64);
  EXPECT_EQ(bytes_per_token(session, {}), (kVocab * 4 + 63) / 64 * 64);
}

TEST_F(CudaNextToken, ASessionReturnsWholeRowsAfterShortlists) {
  decode::Session session = this->session(), whole = this->session();
  session.set_shortlists({.likeliest = 4});
  EXPECT_TRUE(session.append(std::span(prompt)).empty());
  const auto want = whole.append(std::span(prompt));
  EXPECT_TRUE(std::ranges::equal(session.logits(), want));
  const auto list = std::get<LikeliestTokens>(session.shortlist());
  EXPECT_EQ(list.ids.front(), decode::argmax(want));
  session.set_shortlists({});
  const std::int32_t next = 7;
  EXPECT_TRUE(
      std::ranges::equal(session.append(std::span(&next, 1)), whole.append(std::span(&next, 1))));
}

TEST_F(CudaNextToken, RowsOfABatchHaveTheirOwnLists) {
  decode::Session batch(model, weights.pointers(), {.batch = 3, .capacity = 64}, emulated_gpu());
  batch.set_shortlists({.at_draw = true});
  const std::vector<double> draws = {0.1, 0.6, 0.9};
  batch.set_draws(1, draws);
  const std::vector<std::int32_t> ids = {3, 1, 4};
  std::vector<std::span<const std::int32_t>> rows;
  for (const std::int32_t& id : ids) rows.push_back(std::span(&id, 1));
  batch.append(rows);
  for (std::int64_t row = 0; row < 3; ++row) {
    const auto list = std::get<decode::TokensAtDraw>(batch.shortlist(row));
    const double target = draws[static_cast<std::size_t>(row)] * list.weight;
    double through = list.before;
    EXPECT_LE(through, target);
    for (const float x : list.logits) through += std::exp(double{x} - double{list.largest});
    EXPECT_GT(through, target);
    const auto logits = batch.logits(row);
    EXPECT_TRUE(std::ranges::equal(
        list.logits, logits.subspan(static_cast<std::size_t>(list.first), list.logits.size())));
  }
}

TEST_F(CudaNextToken, LogitsThatAreNotNumbersEndTheText) {
  const Backend& gpu = emulated_gpu();
  const auto good = weights.pointers();
  std::vector<ConstTensorRef> parameters(good.begin(), good.end());
  // The last number of the head: the logits of all tokens but one remain numbers.
  const std::size_t head = parameters.size() - 1;
  const auto buffer = gpu.allocate(parameters[head].bytes());
  const TensorRef spoiled(*buffer, 0, parameters[head].type());
  write_tensor<float>(gpu.context().queue(), spoiled, [&](std::span<float> values) {
    std::ranges::copy(copy_to_host<float>(gpu.context().queue(), parameters[head]), values.begin());
    values.back() = std::nanf("");
  });
  parameters[head] = spoiled;
  for (const double temperature : {0.0, 1.0}) {
    decode::Session session(model, parameters, {.capacity = 64}, gpu);
    EXPECT_ERROR_SAYS(
        decode::generate(session, prompt, nullptr,
                         {.max_new_tokens = 2, .sampler = {.temperature = temperature}},
                         [](std::string_view) {}),
        ExitCode::numerical, "the logits after 4 tokens are not numbers");
  }
}

}  // namespace
}  // namespace lamina::testing
