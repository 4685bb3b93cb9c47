// Optimizers and schedules, compared with MaxText: every folder of maxtext named optim_*, with the
// run file that `lamina config import` writes for its settings.
#include "train/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

#include "backends/cpu/backend.h"
#include "core/json.h"
#include "inspect/verify/case.h"
#include "io/safetensors_writer.h"
#include "support/goldens.h"
#include "support/maxtext_names.h"
#include "support/maxtext_run.h"
#include "support/models.h"
#include "support/temp_dir.h"
#include "train/loop/schedule.h"
#include "train/loop/spikes.h"
#include "train/optimizer/parameter_groups.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

// Lamina's parameters, and the places of their values in MaxText's tensors.
struct Subject {
  decoder::ParameterTable parameters;
  std::vector<std::string> names;                  // of tensors that are unchanged
  std::vector<std::vector<MaxTextTensor>> places;  // of the others

  enum class Of { value, gradient };
  std::vector<float> read(const inspect::GoldenCase& golden, const std::string& prefix,
                          std::size_t i, Of of = Of::value) const {
    const decoder::Parameter& p = parameters.all()[i];
    if (places.empty()) return golden.floats(prefix + names[i]);
    std::vector<float> out(static_cast<std::size_t>(p.num_elements()));
    for (const MaxTextTensor& from : places[i]) {
      const std::vector<float> theirs = golden.floats(prefix + from.name());
      for (std::int64_t k = 0; k < from.num_elements(); ++k)
        out[static_cast<std::size_t>(from.first() + k)] =
            of == Of::value ? from.ours(theirs[from.index(k)])
                            : theirs[from.index(k)] / from.gradient(1);
    }
    return out;
  }
};

// A tensor of MaxText's tree with lamina's name, which masks and groups refer to.
decoder::Parameter parameter_of(std::string_view theirs) {
  decoder::Parameter p;
  if (theirs.ends_with("mlp/kernel")) {
    p.name = "layers.0.feed_forward.weight";
  } else if (theirs.ends_with("bias")) {
    p.name = "layers.0.output.bias";
    p.desc.role = registry::Role::bias;
  } else if (theirs.ends_with("norm/scale")) {
    p.name = "layers.0.norm.weight";
    p.desc.role = registry::Role::norm;
  } else {
    EXPECT_EQ(theirs, "token_embedder/embedding");
    p.name = "embed.weight";
    p.desc.role = registry::Role::embedding;
  }
  return p;
}

// Single tensors, each unchanged.
Subject tensors_of(const inspect::GoldenCase& golden) {
  constexpr std::string_view prefix = "params.0.";
  Subject out;
  for (std::string_view name : golden.golden.names()) {
    if (!name.starts_with(prefix)) continue;
    decoder::Parameter p = parameter_of(name.substr(prefix.size()));
    p.desc.shape = golden.shape(name);
    out.parameters.add(std::move(p));
    out.names.emplace_back(name.substr(prefix.size()));
  }
  return out;
}

// The text of the object `key` of a JSON file without braces in its strings.
std::string object_text(const std::string& file, const std::string& key) {
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::size_t begin = text.find('{', text.find("\"" + key + "\""));
  std::size_t end = begin, depth = 0;
  do {
    if (text[end] == '{') ++depth;
    if (text[end] == '}') --depth;
    ++end;
  } while (depth > 0);
  return text.substr(begin, end - begin);
}

// The parameters of a model with their roles: one per layer, matrices [out, in].
Subject model_of(const inspect::GoldenCase& golden) {
  const TempDir folder;
  const std::string model = object_text(golden.directory + "/config.json", "model");
  folder.write("config.json", model);
  folder.write("golden.json", "{}");
  constexpr std::string_view prefix = "params.0.";
  std::vector<io::TensorSpec> specs;
  for (std::string_view name : golden.golden.names())
    if (name.starts_with(prefix))
      specs.push_back({std::string(name.substr(prefix.size())), DType::f32, golden.shape(name)});
  io::write_weight_files(folder.path(), specs,
                         [&](const io::TensorSpec& spec) {
                           return golden.golden.tensor(std::string(prefix) + spec.name).bytes;
                         },
                         {.stem = "model", .metadata = {}});
  const MaxTextConfig config = maxtext_config(folder.path());
  EXPECT_EQ(config.reason, "");
  const io::WeightFiles files(folder.path());
  const decoder::Model ours = open_description(config.model, true);
  Subject out;
  for (const decoder::Parameter& p : ours.parameters().all()) {
    out.parameters.add(p);
    out.places.push_back(maxtext_tensors(p, ours.config().num_layers(), config, files));
  }
  return out;
}

void expect_near(const std::vector<float>& want, const float* got, const std::string& name,
                 double tolerance) {
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got[i], want[i], tolerance * std::max(1.0f, std::abs(want[i]))) << name << ' ' << i;
}

class MaxTextOptimizer : public ::testing::TestWithParam<fs::path> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MaxTextOptimizer);

TEST_P(MaxTextOptimizer, StepsAsTheReferenceDoes) {
  const JsonDocument document =
      JsonDocument::read((GetParam() / "config.json").string(), {.code = ExitCode::checkpoint});
  const JsonValue theirs = document.root();
  if (!theirs.find("opt_type")) GTEST_SKIP() << "is of maxtext_training_test.cc";
  const inspect::GoldenCase golden(GetParam().string());
  const config::RunConfig run = maxtext_run(theirs);
  Subject subject = theirs.find("model") ? model_of(golden) : tensors_of(golden);
  const auto learning = train::learning_of(subject.parameters, run.optimizer.groups);
  for (std::size_t i = 0; i < learning.size(); ++i)
    subject.parameters.set_learning(static_cast<int>(i), learning[i]);
  const std::vector<decoder::Parameter>& parameters = subject.parameters.all();
  const Backend& backend = cpu::cpu_backend();
  train::TrainState state(subject.parameters, DType::f32, false, backend, {}, run.optimizer);
  train::Optimizer optimizer(subject.parameters, run.optimizer, backend);
  const bool all_learn = std::ranges::all_of(parameters, &decoder::Parameter::learns);
  // Matrix products round.
  const double tolerance = run.optimizer.name == "muon" ? 2e-5 : 1e-6;
  // Without this key the case tests the optimizer alone, which does not clip in MaxText.
  const double clip_norm = theirs.find("gradient_clipping_threshold") ? run.train.clip_norm : 0;
  train::SpikeHistory spikes;
  std::int64_t steps = 0;
  for (; golden.has(fmt::format("lr.{}", steps)); ++steps) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::vector<float> before = subject.read(golden, fmt::format("params.{}.", steps), i);
      if (steps == 0)
        std::ranges::copy(before, floats(state.masters()[i]));
      else
        expect_near(before, floats(state.masters()[i]), parameters[i].name, tolerance);
      if (parameters[i].learns())
        std::ranges::copy(
            subject.read(golden, fmt::format("grads.{}.", steps), i, Subject::Of::gradient),
            floats(state.gradients()[i]));
    }
    const double norm = optimizer.gradient_norm(state);
    const std::string norm_name = fmt::format("grad_norm.{}", steps);
    if (all_learn && golden.has(norm_name)) {
      EXPECT_NEAR(norm, golden.floats(norm_name)[0], 1e-5 * norm);
    }
    const double rate =
        train::learning_rate(run.schedule, run.optimizer.lr, steps, run.train.steps);
    EXPECT_NEAR(rate, golden.floats(fmt::format("lr.{}", steps))[0], 1e-6 * rate);
    bool skipped = false;
    if (run.train.skip_spikes > 0) {
      const double loss = static_cast<double>(golden.floats(fmt::format("loss.{}", steps))[0]);
      skipped = train::is_spike(spikes, loss, norm, run.train.skip_spikes, run.train.spike_window);
      train::remember(spikes, loss, norm, run.train.spike_window);
      const auto& want = golden.golden.tensor(fmt::format("is_skipped.{}", steps)).bytes;
      EXPECT_EQ(skipped, want[0] != std::byte{0}) << steps;
    }
    if (skipped) {
      ++spikes.num_skipped;
      continue;
    }
    const std::int64_t update = steps - spikes.num_skipped;
    optimizer.update(state,
                     train::learning_rate(run.schedule, run.optimizer.lr, update, run.train.steps),
                     optimizer.clip_scales(clip_norm, run.train.clip_each), update);
  }
  EXPECT_GT(steps, 1);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    expect_near(subject.read(golden, fmt::format("params.{}.", steps), i),
                floats(state.masters()[i]), parameters[i].name, tolerance);
}

INSTANTIATE_TEST_SUITE_P(All, MaxTextOptimizer,
                         ::testing::ValuesIn(golden_folders("maxtext", "config.json", "optim_")),
                         [](const auto& test) {
                           return test_name(test.param.filename().string());
                         });

// Also after the last step, where only the schedule's formula gives a value.
TEST(MaxTextSchedules, EqualTheirFormulas) {
  const fs::path folder = golden_dir() / "maxtext" / "optim_schedules";
  if (!fs::exists(folder)) GTEST_SKIP() << "is not in the tree";
  const inspect::GoldenCase golden(folder.string());
  std::size_t n = 0;
  for (JsonValue theirs : golden.info.root().at("settings").elements()) {
    SCOPED_TRACE(n);
    const config::RunConfig run = maxtext_run(theirs);
    const std::vector<float> want = golden.floats(fmt::format("{}.lr", n++));
    const double peak = theirs.at("learning_rate").as_double();
    for (std::size_t step = 0; step < want.size(); ++step)
      EXPECT_NEAR(train::learning_rate(run.schedule, peak, static_cast<std::int64_t>(step),
                                       run.train.steps),
                  want[step], 1e-6 * peak)
          << step;
  }
  EXPECT_GT(n, 0u);
}

}  // namespace
}  // namespace lamina::testing
