// lora.use_dora: trainable magnitudes, in memory, in files, and merged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>

#include "autodiff/vjp.h"
#include "cli/spoilt_model.h"
#include "io/weight_files.h"
#include "program/bound_program.h"
#include "support/expect_error.h"
#include "train/lora_run.h"
#include "train/optimizer/gradients.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;
using Values = std::vector<std::vector<double>>;

const std::vector<std::string> kDora = {"lora.use_dora=true"};

std::vector<std::string> with(std::vector<std::string> sets) {
  sets.insert(sets.end(), kDora.begin(), kDora.end());
  return sets;
}

TEST(Dora, BeforeItsFirstStepItIsTheModelWithinRounding) {
  const TempDir folder;
  LoraRun dora(folder, kDora);
  EXPECT_TRUE(dora.train(0).stopped);
  EXPECT_LT(
      difference(logits_of(load_f32(dora.checkpoint())), logits_of(load_f32(folder / "model"))),
      1e-5);
}

TEST(Dora, MagnitudesBeginAsTheLengthsOfRows) {
  const TempDir folder;
  LoraRun dora(folder, kDora);
  dora.train(0);
  const model::Loaded m = load_f32(dora.checkpoint());
  const auto values = copy_of(m.model(), m.weights.pointers());
  const decoder::ParameterTable& parameters = m.model().parameters();
  const auto of = [&](const char* name) {
    return values[static_cast<std::size_t>(parameters.find(name))];
  };
  const std::vector<float> weight = of("layers.1.attention.wq.weight"),
                           lengths = of("layers.1.attention.wq.lora_magnitude");
  const std::size_t columns = weight.size() / lengths.size();
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    double squared = 0;
    for (std::size_t i = 0; i < columns; ++i)
      squared += std::pow(static_cast<double>(weight[row * columns + i]), 2);
    EXPECT_NEAR(static_cast<double>(lengths[row]), std::sqrt(squared), 1e-6);
  }
}

// Merging equals the definition in f64, also with a bias and with transposed published matrices.
TEST(Dora, MergedComputesTheSameWithinRounding) {
  for (const auto& [golden, targets] :
       {std::pair{"llama3_gqa", "[\"all-linear\"]"}, std::pair{"qwen2_tied", "[\"all-linear\"]"},
        std::pair{"phi3_partial", "[\"all-linear\"]"},
        std::pair{"gpt2_prefixed", "[\"c_attn\", \"c_fc\"]"}}) {
    if (!has_golden_model(golden)) continue;
    const TempDir folder;
    LoraRun dora(folder, with({std::string("lora.target_modules=") + targets, "optimizer.lr=0.05"}),
                 golden);
    dora.train();
    const std::vector<float> adapted = logits_of(load_f32(dora.checkpoint()));
    EXPECT_GT(difference(adapted, logits_of(load_f32(folder / "model"))), 1e-2) << golden;
    const model::Loaded merged = merged_into(folder / "merged", dora.checkpoint());
    EXPECT_FALSE(merged.model().adapter());
    EXPECT_LT(difference(logits_of(merged), adapted), 1e-4) << golden;
  }
}

struct Gradients {
  double loss = 0;
  Values values;
};

// Gradients of the loss of a few rows, in f64.
Gradients gradients_of(const decoder::Model& model, Values values) {
  const Rows rows = random_rows(model, 2, 7);
  program::BoundProgram program(
      train::add_gradients(model.loss_graph({2, 7, DType::f64}, {.segments = true}),
                           model.parameters(), autodiff::save_everything()),
      cpu::cpu_backend());
  Gradients out;
  for (const std::vector<double>& v : values) out.values.emplace_back(v.size());
  program.bind_parameters(parameters_of(values));
  program.bind_gradients(tensors_of(out.values));
  program.set_loss_scales({{"loss", 0.1}});
  rows.microbatch().bind(program);
  program.run(*cpu::cpu_backend().allocate(program.arena_bytes()));
  out.loss = program.loss("loss");
  return out;
}

// With fixed lengths n of w + s b a, DoRA is LoRA over (m / n) w with (m / n) b instead of b: its
// gradients equal that adapter's, times m / n for b, and the gradients of m are slopes.
TEST(Dora, GradientsHoldTheLengthsOfRowsFixed) {
  const TempDir folder;
  LoraRun dora(folder, kDora), plain(folder, {"run.out=" + folder / "plain"});
  const decoder::Model& model = *dora.training.model;
  const decoder::ParameterTable& parameters = model.parameters();
  const model::Loaded base = load_f32(folder / "model");
  const auto start = copy_of(base.model(), base.weights.pointers());
  std::mt19937 random(3);
  std::normal_distribution<double> normal(0, 0.3);
  Values values;
  for (const decoder::Parameter& p : parameters.all()) {
    const int same = base.model().parameters().find(p.name);
    if (same >= 0) {
      const auto& from = start[static_cast<std::size_t>(same)];
      values.emplace_back(from.begin(), from.end());
      continue;
    }
    values.emplace_back(static_cast<std::size_t>(p.num_elements()));
    for (double& v : values.back()) v = normal(random);
    if (p.name.ends_with(decoder::kAdapterMagnitude))
      for (double& v : values.back()) v = 0.5 + std::abs(v);
  }

  Values scaled = values;
  std::map<std::string, std::vector<double>> ratios;  // m / n, by the name of b
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string& name = parameters[static_cast<int>(i)].name;
    if (!name.ends_with(decoder::kAdapterMagnitude)) continue;
    const std::string weight = decoder::adapted_name(name);
    const auto at = [&](const std::string& of) {
      return static_cast<std::size_t>(parameters.find(of));
    };
    const std::size_t w = at(weight), a = at(decoder::adapter_name(weight, decoder::kAdapterDown)),
                      b = at(decoder::adapter_name(weight, decoder::kAdapterUp));
    const std::size_t rows = values[i].size(), columns = values[w].size() / rows,
                      rank = values[b].size() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      double squared = 0;
      for (std::size_t c = 0; c < columns; ++c) {
        double sum = values[w][row * columns + c];
        for (std::size_t r = 0; r < rank; ++r)
          sum += model.adapter()->scale * values[b][row * rank + r] * values[a][r * columns + c];
        squared += sum * sum;
      }
      const double ratio = values[i][row] / std::sqrt(squared);
      ratios[parameters[static_cast<int>(b)].name].push_back(ratio);
      for (std::size_t c = 0; c < columns; ++c) scaled[w][row * columns + c] *= ratio;
      for (std::size_t r = 0; r < rank; ++r) scaled[b][row * rank + r] *= ratio;
    }
  }
  EXPECT_EQ(ratios.size(), 9u);  // layers, matrices

  const decoder::ParameterTable& others = plain.training.model->parameters();
  Values of_plain;
  for (const decoder::Parameter& p : others.all())
    of_plain.push_back(scaled[static_cast<std::size_t>(parameters.find(p.name))]);
  const Gradients got = gradients_of(model, values),
                  want = gradients_of(*plain.training.model, of_plain);
  EXPECT_NEAR(got.loss, want.loss, 1e-9 * want.loss);
  std::size_t compared = 0;
  for (std::size_t i = 0; i < want.values.size(); ++i) {
    const std::string& name = others[static_cast<int>(i)].name;
    if (!decoder::is_adapter(name)) continue;
    const auto& gradient = got.values[static_cast<std::size_t>(parameters.find(name))];
    const auto ratio = ratios.find(name);
    const std::size_t rank = static_cast<std::size_t>(kRank);
    for (std::size_t k = 0; k < gradient.size(); ++k, ++compared)
      EXPECT_NEAR(gradient[k],
                  want.values[i][k] * (ratio == ratios.end() ? 1 : ratio->second[k / rank]), 1e-9)
          << name;
  }
  EXPECT_GT(compared, 1000u);

  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!parameters[static_cast<int>(i)].name.ends_with(decoder::kAdapterMagnitude)) continue;
    constexpr double kStep = 1e-6;
    Values above = values, below = values;
    above[i][1] += kStep;
    below[i][1] -= kStep;
    const double slope =
        0.1 * (gradients_of(model, above).loss - gradients_of(model, below).loss) / (2 * kStep);
    EXPECT_NEAR(got.values[i][1], slope, 1e-7 + 1e-5 * std::abs(slope));
    break;
  }
}

TEST(Dora, TheFilesOfPeftHoldTheAdapter) {
  const TempDir folder;
  LoraRun dora(folder, kDora);
  dora.train();
  const std::string adapter = copy_adapter(folder, dora.checkpoint());
  EXPECT_THAT(folder.read("adapter/adapter_config.json"),
              ::testing::HasSubstr("\"use_dora\": true"));
  const io::WeightFiles files(adapter + "/adapter_model.safetensors");
  EXPECT_EQ(files.names().size(), 27u);
  const decoder::ParameterTable& parameters = dora.training.model->parameters();
  const Shape& weight = parameters[parameters.find("layers.2.attention.wq.weight")].desc.shape;
  const std::string module = "base_model.model.model.layers.2.self_attn.q_proj.";
  EXPECT_EQ(files.tensor(module + "lora_magnitude_vector").shape, Shape{weight[0]});
  const std::vector<float> want = logits_of(load_f32(dora.checkpoint()));
  EXPECT_EQ(logits_of(load_f32(folder / "model", adapter)), want);
  LoraRun next(folder, with({"train.from=" + adapter, "run.out=" + folder / "second"}));
  EXPECT_TRUE(next.train(0).stopped);
  EXPECT_EQ(logits_of(load_f32(next.checkpoint())), want);
}

// A pruned row has the length 0, until its row of b is no longer 0.
TEST(Dora, RowsOfZerosLearn) {
  const TempDir folder;
  add_golden_model(folder, "llama3_gqa");
  constexpr std::size_t kColumns = 48, kRow = 3;
  cli::spoil_tensor(folder / "model", "model.layers.0.mlp.down_proj.weight", [&](auto bytes) {
    const std::size_t row = bytes.size() / kColumns;  // 48 outputs
    std::ranges::fill(bytes.subspan(kRow * row, row), std::byte{});
  });
  const std::vector<float> before = logits_of(load_f32(folder / "model"));
  {
    LoraRun dora(folder, kDora);
    EXPECT_TRUE(dora.train(0).stopped);
    EXPECT_LT(difference(logits_of(load_f32(dora.checkpoint())), before), 1e-5);
    const model::Loaded merged = merged_into(folder / "start", dora.checkpoint());
    EXPECT_LT(difference(logits_of(merged), before), 1e-5);
  }
  LoraRun rest(folder, kDora);
  for (const train::StepResult& step : rest.steps()) EXPECT_TRUE(std::isfinite(step.loss));
  const model::Loaded after = load_f32(rest.checkpoint());
  const auto values = copy_of(after.model(), after.weights.pointers());
  const int up = after.model().parameters().find("layers.0.feed_forward.w2.lora_b");
  ASSERT_GE(up, 0);
  const auto learned =
      std::span(values[static_cast<std::size_t>(up)]).subspan(kRow * std::size_t{kRank}, kRank);
  EXPECT_TRUE(std::ranges::any_of(learned, [](float v) { return v != 0; }));
  const std::vector<float> adapted = logits_of(after);
  EXPECT_LT(difference(logits_of(merged_into(folder / "merged", rest.checkpoint())), adapted),
            1e-4);
}

TEST(Dora, ResumesToTheSameBits) {
  for (const char* dropout : {"0.0", "0.2"}) {
    const TempDir folder;
    const std::vector<std::string> sets = with({std::string("lora.dropout=") + dropout});
    std::vector<std::string> other = sets;
    other.push_back("run.out=" + folder / "whole");
    LoraRun(folder, other).train();
    LoraRun(folder, sets).train(3);
    LoraRun(folder, sets).train();
    for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
      const std::string path = "/checkpoints/step-00000006/" + std::string(name);
      EXPECT_TRUE(folder.read("out" + path) == folder.read("whole" + path)) << name;
    }
  }
}

TEST(Dora, LearnsInScansOfAccumulatedMicrobatchesWithRematerialisation) {
  const TempDir folder;
  const auto losses = [&](std::vector<std::string> sets) {
    sets.push_back("run.out=" + folder / sets[0]);
    std::vector<double> out;
    for (const train::StepResult& step : LoraRun(folder, with(sets)).steps())
      out.push_back(step.loss);
    return out;
  };
  const std::vector<double> want = losses({"train.scan_layers=true"});
  EXPECT_LT(want.back(), want.front());
  for (const char* set :
       {"train.scan_layers=false", "train.remat=full", "train.microbatch_size=1"}) {
    const std::vector<double> got = losses({set});
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-3) << set;
  }
}

TEST(Dora, MagnitudesOfAnAdapterWithoutUseDoraAreRefused) {
  const TempDir folder;
  LoraRun dora(folder, kDora);
  dora.train(0);
  const std::string adapter = copy_adapter(folder, dora.checkpoint()), key = "\"use_dora\": ";
  std::string config = folder.read("adapter/adapter_config.json");
  ASSERT_NE(config.find(key + "true"), config.npos);
  config.replace(config.find(key + "true"), (key + "true").size(), key + "false");
  folder.write("adapter/adapter_config.json", config);
  EXPECT_USER_ERROR(load_f32(folder / "model", adapter), ExitCode::checkpoint,
                    adapter +
                        "/adapter_model.safetensors: has the tensor 'base_model.model.model.layers."
                        "0.mlp.down_proj.lora_magnitude_vector' of DoRA, but use_dora of "
                        "adapter_config.json is not true\n  PEFT does not use it: correct one of "
                        "the two files")
}

TEST(Dora, NeedsARank) {
  const TempDir folder;
  EXPECT_ERROR_SAYS(LoraRun(folder, with({"lora.rank=0"})), ExitCode::usage,
                    "'lora.use_dora' has no effect without 'lora.rank'");
}

}  // namespace
}  // namespace lamina::testing
