// Gradients of microbatches are summed where they are computed.
#include "train/optimizer/gradient_sums.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/backend.h"
#include "conformance/numbers/compare.h"
#include "program/bound_program.h"
#include "support/models.h"
#include "train/family_cases.h"
#include "train/loop/train_step.h"
#include "train/optimizer/row_gradients.h"

namespace lamina::testing {
namespace {

std::string deep_model(int layers, bool tied) {
  return fmt::format(R"(family = "llama2"
[model]
vocab_size = 1031
hidden_size = 64
intermediate_size = 128
num_hidden_layers = {}
num_attention_heads = 2
tie_word_embeddings = {}
)",
                     layers, tied);
}

// Bytes of gradients and temporaries.
std::size_t step_bytes(const decoder::Model& model, std::int64_t microbatches) {
  const decoder::ModelGraph graph =
      train::step_graph(model, {.shape = {1, 8}, .microbatches = microbatches});
  const train::GradientLists lists = train::gradient_lists(graph, model.parameters(), microbatches);
  return program::BoundProgram(graph, cpu::cpu_backend()).arena_bytes() +
         train::train_bytes(model.parameters(), DType::f32, microbatches > 1, lists).gradients;
}

// Products add to their gradients, also the head's; gradients of a layer's norms wait for their
// sum.
TEST(GradientSums, TakeNoSecondSetOfGradients) {
  for (const bool scan : {true, false})
    for (const bool tied : {true, false})
      for (const int layers : {4, 16}) {
        const decoder::Model model = open_description(deep_model(layers, tied), scan);
        const std::size_t one = step_bytes(model, 1), several = step_bytes(model, 4);
        const std::size_t rows = tied ? 0 : 4 * 8 * 65 * sizeof(float);  // of the other lists
        EXPECT_LE(several, one + rows + 4096)
            << layers << " layers, " << (scan ? "scanned" : "unrolled");
      }
}

class GradientSums : public ::testing::TestWithParam<FamilyCase> {};

// They equal the mean of the gradients of single microbatches with equally many labels.
TEST_P(GradientSums, EqualTheMeanOfMicrobatches) {
  const TestModel& from = GetParam().model;
  const decoder::Model model = open_model(from.path, GetParam().scan);
  if (model.has_dropout()) GTEST_SKIP() << "each microbatch draws its own dropout";
  const std::int64_t tokens = test_tokens(model);
  Rows rows[] = {random_rows(model, 1, tokens, 1), random_rows(model, 1, tokens, 2),
                 random_rows(model, 1, tokens, 3)};
  for (Rows& row : rows)
    for (auto& label : row.labels) label = std::max(label, 0);  // all count
  const auto gradients_of = [&](std::span<const program::Microbatch> batches) {
    const auto state = load_state(from, model, DType::f32, batches.size() > 1);
    train::TrainStep step(model, *state,
                          {.shape = {1, tokens},
                           .features = train::all_losses(false),
                           .microbatches = static_cast<std::int64_t>(batches.size())},
                          {}, cpu::cpu_backend());
    // The second step contains nothing of the first.
    for (int i = 0; i < 2; ++i) step.gradients(batches, 0);
    return copy_of(model, state->gradients());
  };
  const program::Microbatch batches[] = {rows[0].microbatch(), rows[1].microbatch(),
                                         rows[2].microbatch()};
  const auto summed = gradients_of(batches);
  std::vector<std::vector<float>> mean(summed.size());
  for (const program::Microbatch& batch : batches) {
    const auto alone = gradients_of({&batch, 1});
    for (std::size_t i = 0; i < alone.size(); ++i) {
      mean[i].resize(alone[i].size());
      for (std::size_t k = 0; k < alone[i].size(); ++k) mean[i][k] += alone[i][k] / 3;
    }
  }
  double largest = 0;
  for (const auto& tensor : mean)
    largest = std::max(largest, conformance::largest_magnitude(tensor));
  for (std::size_t i = 0; i < mean.size(); ++i)
    EXPECT_LE(difference(summed[i], mean[i]),
              1e-5 * std::max(conformance::largest_magnitude(mean[i]), 1e-2 * largest))
        << model.parameters().all()[i].name;
}

INSTANTIATE_TEST_SUITE_P(Families, GradientSums, ::testing::ValuesIn(family_cases()),
                         family_case_name);

}  // namespace
}  // namespace lamina::testing
