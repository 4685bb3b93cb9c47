// Gradients of tables as lists of rows: bit-equal results to whole gradients, with less memory; and
// updates of only the listed rows.
#include "train/optimizer/row_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "backends/cpu/backend.h"
#include "support/goldens.h"
#include "support/models.h"
#include "support/temp_dir.h"
#include "weights/initialise.h"

namespace lamina::testing {
namespace {

using Tensors = std::vector<std::vector<float>>;

// The results of some steps on a model.
struct Outcome {
  std::vector<double> losses, norms;
  Tensors masters, first_moments, second_moments;
  std::size_t state_bytes = 0, arena_bytes = 0;
  train::GradientLists lists;
  std::vector<std::set<std::int32_t>> listed;  // ids of the last step's lists
};

struct Recipe {
  train::TrainStepOptions options;
  config::OptimizerSection optimizer = {};
  bool listed = true;
  int steps = 2;
};

Outcome run(const TestModel& from, const decoder::Model& model, std::int64_t tokens,
            Recipe recipe) {
  train::TrainStepOptions& options = recipe.options;
  const Backend& backend = cpu::cpu_backend();
  options.shape.tokens = tokens;
  options.seed = 11;
  const bool accumulate = options.microbatches > 1;
  auto state = load_state(from, model, options.shape.dtype, accumulate);
  std::unique_ptr<train::TrainStep> step;
  if (recipe.listed) {
    decoder::ModelGraph graph = train::step_graph(model, options);
    auto listed = std::make_unique<train::TrainState>(
        model.parameters(), options.shape.dtype, accumulate, backend,
        train::gradient_lists(graph, model.parameters(), options.microbatches));
    for (std::size_t i = 0; i < state->masters().size(); ++i)
      std::copy_n(floats(state->masters()[i]), model.parameters().all()[i].num_elements(),
                  floats(listed->masters()[i]));
    listed->refresh_copies();
    state = std::move(listed);
    step = std::make_unique<train::TrainStep>(model, std::move(graph), *state, options,
                                              recipe.optimizer, backend);
  } else {
    step = std::make_unique<train::TrainStep>(model, *state, options, recipe.optimizer, backend);
  }
  Outcome out;
  for (int s = 0; s < recipe.steps; ++s) {
    // Different tokens in each step, so that the listed rows change.
    const Rows rows = random_rows(model, options.shape.batch * options.microbatches, tokens,
                                  static_cast<unsigned>(s) + 1);
    std::vector<program::Microbatch> batches;
    for (std::int64_t m = 0; m < options.microbatches; ++m)
      batches.push_back(rows.microbatch(m * options.shape.batch));
    train::StepResult result = step->run(batches, 1e-2, s);
    out.losses.push_back(result.loss);
    out.norms.push_back(result.gradient_norm);
  }
  out.masters = copy_of(model, state->masters());
  out.first_moments = copy_of(model, state->first_moments());
  out.second_moments = copy_of(model, state->second_moments());
  out.state_bytes = state->bytes();
  out.arena_bytes = step->arena_bytes();
  out.lists = state->lists();
  out.listed.resize(out.masters.size());
  for (std::size_t i = 0; i < out.listed.size(); ++i)
    if (const TensorRef& tensor = state->gradient_ids()[i]) {
      const auto ids = host_view<std::int32_t>(tensor);
      out.listed[i] = {ids.begin(), ids.end()};
    }
  return out;
}

class RowGradients : public ::testing::TestWithParam<TestModel> {
 protected:
  RowGradients() : model(open_model(GetParam().path)), tokens(test_tokens(model)) {}

  void expect_the_same(Recipe recipe) {
    const Outcome listed = run(GetParam(), model, tokens, recipe);
    recipe.listed = false;
    const Outcome whole = run(GetParam(), model, tokens, recipe);
    EXPECT_EQ(listed.losses, whole.losses);
    for (std::size_t s = 0; s < whole.norms.size(); ++s)
      EXPECT_NEAR(listed.norms[s], whole.norms[s], 1e-13 * whole.norms[s]);
    for (std::size_t i = 0; i < whole.masters.size(); ++i) {
      const std::string& name = model.parameters().all()[i].name;
      EXPECT_TRUE(same_bits(listed.masters[i], whole.masters[i])) << name;
      EXPECT_TRUE(same_bits(listed.first_moments[i], whole.first_moments[i])) << name;
      EXPECT_TRUE(same_bits(listed.second_moments[i], whole.second_moments[i])) << name;
    }
  }

  bool has_lists(const train::TrainStepOptions& options) {
    return train::gradient_lists(train::step_graph(model, options), model.parameters(), 1).any();
  }

  decoder::Model model;
  std::int64_t tokens;
};

TEST_P(RowGradients, LeadToTheBitsThatWholeOnesLeadTo) {
  train::TrainStepOptions options{
      .shape = {1, tokens}, .features = train::all_losses(false), .clip_norm = 0.1};
  if (!has_lists(options)) GTEST_SKIP() << "no table of this model is only looked up";
  options.microbatches = 2;
  expect_the_same({.options = options});
  options = {.shape = {.batch = 2, .dtype = DType::bf16},
             .features = train::all_losses(false),
             .remat = "full"};
  expect_the_same({.options = options});
}

INSTANTIATE_TEST_SUITE_P(All, RowGradients, ::testing::ValuesIn(test_models()),
                         [](const auto& test) { return test_name(test.param.name); });

// A model with tables much larger than the rows that a step looks up.
const char* const kTables = R"(
family = "llama2"
[model]
vocab_size = 997
hidden_size = 16
intermediate_size = 24
num_hidden_layers = 3
num_attention_heads = 2
engram_layers = [1, 2]
engram_num_heads = 2
engram_head_dim = 8
engram_vocab_bases = [3000, 4000]
)";

struct Tables {
  TempDir folder;
  TestModel from{"tables", folder.write("model.toml", kTables)};
  decoder::Model model = open_model(from.path);
  Outcome train(Recipe recipe) const { return run(from, model, 6, std::move(recipe)); }
  std::size_t find(const std::string& name) const {
    return static_cast<std::size_t>(model.parameters().find(name));
  }
};

TEST(RowGradientsOfTables, TakeTheMemoryOfTheTokens) {
  Tables t;
  train::TrainStepOptions options{.features = train::all_losses(false), .microbatches = 2};
  const Outcome listed = t.train({.options = options}),
                whole = t.train({.options = options, .listed = false});
  // 6 tokens look up one row each of the token table and 4 of each layer's tables.
  std::int64_t saved = 0;
  for (const auto& [name, slots] : {std::pair{"embed.weight", 6},
                                    {"layers.1.engram.table.weight", 24},
                                    {"layers.2.engram.table.weight", 24}}) {
    const std::size_t i = t.find(name);
    EXPECT_EQ(listed.lists.microbatch[i], slots) << name;
    EXPECT_EQ(listed.lists.step[i], 2 * slots) << name;
    const Shape& table = t.model.parameters().all()[i].desc.shape;
    saved += 4 * (table[0] * table[1] - 3 * slots * (table[1] + 1));
  }
  EXPECT_FALSE(whole.lists.any());
  EXPECT_NEAR(static_cast<double>(whole.state_bytes - listed.state_bytes),
              static_cast<double>(saved), 64 * 12);
  // Sorting needs some memory.
  EXPECT_LE(listed.arena_bytes, whole.arena_bytes + 4096);
}

TEST(RowGradientsOfTables, ATableTiedToTheHeadHasAWholeOne) {
  TempDir folder;
  std::string text = kTables;
  text.replace(text.find("vocab_size"), 0, "tie_word_embeddings = true\n");
  TestModel from{"tied", folder.write("model.toml", text)};
  decoder::Model model = open_model(from.path);
  const Outcome got =
      run(from, model, 6, {.options = {.features = train::all_losses(false)}, .steps = 1});
  EXPECT_EQ(got.lists.step[static_cast<std::size_t>(model.parameters().find("embed.weight"))], 0);
  EXPECT_TRUE(got.lists.any());  // the tables of n-grams
}

// After one step from zero state the listed rows equal AdamW's, and the others are unchanged.
TEST(RowGradientsOfTables, LazyUpdatesLeaveOtherRowsAsTheyWere) {
  Tables t;
  for (DType dtype : {DType::f32, DType::bf16}) {
    train::TrainStepOptions options{.shape = {.dtype = dtype},
                                    .features = train::all_losses(false),
                                    .microbatches = 2,
                                    .clip_norm = 0.1};
    config::OptimizerSection lazy;
    lazy.lazy_embeddings = true;
    const Outcome before = t.train({.options = options, .steps = 0}),
                  all = t.train({.options = options, .steps = 1}),
                  some = t.train({.options = options, .optimizer = lazy, .steps = 1});
    for (std::size_t i = 0; i < all.masters.size(); ++i) {
      const decoder::Parameter& p = t.model.parameters().all()[i];
      if (all.lists.step[i] == 0) {
        EXPECT_TRUE(same_bits(some.masters[i], all.masters[i])) << p.name;
        continue;
      }
      const auto width = static_cast<std::size_t>(p.desc.shape[1]);
      EXPECT_GT(some.listed[i].size(), 1u) << p.name;
      for (std::size_t row = 0; row < static_cast<std::size_t>(p.desc.shape[0]); ++row) {
        auto of = [&](const Tensors& tensors) {
          const auto first = tensors[i].begin() + static_cast<std::ptrdiff_t>(row * width);
          return std::vector<float>(first, first + static_cast<std::ptrdiff_t>(width));
        };
        const bool listed = some.listed[i].contains(static_cast<std::int32_t>(row));
        EXPECT_EQ(of(some.masters), of(listed ? all.masters : before.masters)) << p.name;
        EXPECT_EQ(of(some.first_moments), of(all.first_moments)) << p.name;
        EXPECT_EQ(of(some.second_moments), of(all.second_moments)) << p.name;
        if (!listed) {
          EXPECT_NE(of(all.masters), of(before.masters)) << "they decay";
        }
      }
    }
  }
}

TEST(RowGradientsOfTables, ANaNIsFoundInAList) {
  Tables t;
  const Backend& backend = cpu::cpu_backend();
  train::TrainStepOptions options{.shape = {1, 6}, .features = train::all_losses(false)};
  decoder::ModelGraph graph = train::step_graph(t.model, options);
  train::TrainState state(t.model.parameters(), DType::f32, false, backend,
                          train::gradient_lists(graph, t.model.parameters(), 1));
  for (std::size_t i = 0; i < state.masters().size(); ++i)
    weights::initialise(
        t.model.parameters().all()[i], 0,
        std::span(floats(state.masters()[i]),
                  static_cast<std::size_t>(t.model.parameters().all()[i].num_elements())));
  floats(state.masters()[t.find("norm.weight")])[0] = std::nanf("");
  train::TrainStep step(t.model, std::move(graph), state, options, {}, backend);
  Rows rows = random_rows(t.model, 1, 6);
  rows.ids = {700, 5, 700, 9, 5, 6};
  program::Microbatch batch = rows.microbatch();
  try {
    step.run({&batch, 1}, 1e-3, 0);
    ADD_FAILURE() << "a NaN went through";
  } catch (const train::NumericalError& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with(
        "step 1: the gradient of 'embed.weight' is nan at element 80 of [997, 16]"))
        << e.what();
  }
}

}  // namespace
}  // namespace lamina::testing
