// Small models that whole-model tests run over: every golden case of a family that is built, and
// every small model of a plugin (check/*.toml) with fresh weights. A new file is a new model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "conformance/compare.h"
#include "conformance/model_case.h"
#include "conformance/rows.h"
#include "decoder/model.h"
#include "inspect/verify/forward.h"
#include "registry/discovery.h"
#include "train/loop/train_step.h"
#include "weights/weights.h"

namespace lamina::testing {

struct TestModel {
  std::string name;
  std::filesystem::path path;  // a directory with weights, or a TOML file
  friend std::ostream& operator<<(std::ostream& out, const TestModel& m) { return out << m.name; }
};

// What golden.json of the model allows for `key`, where that is more than `usual`: some families
// magnify rounding.
double stated_tolerance(const TestModel& model, const char* key, double usual);

// The plugins of this build, those of tests/plugins included.
const registry::Catalog& built_plugins();

// Those with weights first. Not: training runs (their models are like others).
const std::vector<TestModel>& test_models();

// The small model of a plugin with that name: "llama2_deep".
const TestModel& test_model(std::string_view name);

// As the checks of conformance/ take it.
conformance::ModelCase case_of(const TestModel& model);
// Runs a check of conformance/: what it finds fails the test, where there is nothing it is skipped.
void expect_conforms(void (*check)(const conformance::ModelCase&), const TestModel& model);

// Why no model can be made from a published directory with the plugins that are built: its family
// is not among them, or the case is of something else. Empty if one can.
std::string reason_to_skip(const std::filesystem::path& directory);

// The result of the running test names its family: scripts/family_table.
decoder::Model open_model(const std::filesystem::path& path, bool scan_layers = true);
// That of a run file which has been read.
decoder::Model open_source(const config::ModelSource& source);
// Of a TOML text, with the tokenizer of a directory if it has one.
decoder::Model open_description(const std::string& text, bool scan_layers = true,
                                const std::filesystem::path& directory = {});

// That of a small model of a plugin, with these lines first in its [model].
std::string changed_text(const TestModel& model, const std::string& lines);
inline decoder::Model open_changed(const TestModel& model, const std::string& lines,
                                   bool scan_layers = true) {
  return open_description(changed_text(model, lines), scan_layers);
}
// The first small model of every family that a plugin has one of, in the order of their names.
std::vector<TestModel> one_model_of_each_family();

// The model's weights, in the type that graphs computing in `compute` read.
weights::Weights load_weights(const TestModel& from, const decoder::Model& model,
                              DType compute = DType::f32);
// A fresh training state with these weights.
std::unique_ptr<train::TrainState> load_state(const TestModel& from, const decoder::Model& model,
                                              DType compute = DType::f32, bool accumulate = false);

using program::Rows;

using conformance::pack;
using conformance::random_rows;
inline std::int64_t test_tokens(const decoder::Model& model) {
  return conformance::row_tokens(model);
}

std::vector<float> forward(const decoder::Model& model, std::span<void* const> parameters,
                           const Rows& rows, DType dtype = DType::f32);
inspect::ForwardResult forward_with_hidden(const decoder::Model& model,
                                           std::span<void* const> parameters, const Rows& rows);

using conformance::copy_of;
using conformance::difference;
using conformance::disturb;
using conformance::relative_difference;
using conformance::same_bits;

}  // namespace lamina::testing
