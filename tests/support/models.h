// Small models for whole-model tests: every golden case of a built family, and every small model of
// a plugin (check/*.toml) with fresh weights. A new file is a new model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/backend.h"
#include "config/run_config.h"
#include "conformance/numbers/compare.h"
#include "conformance/subjects/model_case.h"
#include "conformance/subjects/rows.h"
#include "decoder/model.h"
#include "inspect/verify/forward.h"
#include "registry/discovery.h"
#include "support/tensors.h"
#include "train/loop/train_step.h"
#include "weights/weights.h"

namespace lamina::testing {

struct TestModel {
  std::string name;
  std::filesystem::path path;  // a directory with weights, or a TOML file
  friend std::ostream& operator<<(std::ostream& out, const TestModel& m) { return out << m.name; }
};

// Returns the tolerance for `key` in the model's golden.json if it is above `usual`: some families
// magnify rounding.
double stated_tolerance(const TestModel& model, const char* key, double usual);

// The plugins of this build, including tests/plugins.
const registry::Catalog& built_plugins();

// Models with weights first. Without training runs, whose models equal others.
const std::vector<TestModel>& test_models();

// The small model of a plugin with that name: "llama2_deep".
const TestModel& test_model(std::string_view name);

// Converts to the type that the checks of conformance/ take.
conformance::ModelCase case_of(const TestModel& model);
// Runs a check of conformance/: its findings fail the test; without a subject the test is skipped.
void expect_conforms(void (*check)(const conformance::ModelCase&), const TestModel& model);

// Returns the reason that a published directory gives no model with the built plugins: an unknown
// family, or a case without a model. Empty if it does.
std::string reason_to_skip(const std::filesystem::path& directory);

// Opens a model. The result of the running test names its family: scripts/family_table.
decoder::Model open_model(const std::filesystem::path& path, bool scan_layers = true);
// Opens the model of a run file that has been read.
decoder::Model open_source(const config::ModelSource& source);
// Opens the model of a TOML text, with the tokenizer of a directory if given.
decoder::Model open_description(const std::string& text, bool scan_layers = true,
                                const std::filesystem::path& directory = {});

// Returns the text of a plugin's small model, with these lines first in its [model].
std::string changed_text(const TestModel& model, const std::string& lines);
inline decoder::Model open_changed(const TestModel& model, const std::string& lines,
                                   bool scan_layers = true) {
  return open_description(changed_text(model, lines), scan_layers);
}
// The first small model of every family, in the order of their names.
std::vector<TestModel> one_model_of_each_family();

// Loads the model's weights, in the type for graphs that compute in `compute`.
weights::Weights load_weights(const TestModel& from, const decoder::Model& model,
                              DType compute = DType::f32);
// Makes a fresh training state with these weights.
std::unique_ptr<train::TrainState> load_state(const TestModel& from, const decoder::Model& model,
                                              DType compute = DType::f32, bool accumulate = false);

using program::Rows;

using conformance::pack;
using conformance::random_rows;
inline std::int64_t test_tokens(const decoder::Model& model) {
  return conformance::row_tokens(model);
}

std::vector<float> forward(const decoder::Model& model, std::span<const ConstTensorRef> parameters,
                           const Rows& rows, DType dtype = DType::f32);
inspect::ForwardResult forward_with_hidden(const decoder::Model& model,
                                           std::span<const ConstTensorRef> parameters,
                                           const Rows& rows);

inline auto copy_of(const decoder::Model& model, std::span<const ConstTensorRef> from) {
  return conformance::copy_of(model, from, cpu::cpu_backend());
}
inline auto copy_of(const decoder::Model& model, std::span<const TensorRef> from) {
  return conformance::copy_of(model, from, cpu::cpu_backend());
}
using conformance::difference;
using conformance::disturb;
using conformance::relative_difference;
using conformance::same_bits;

}  // namespace lamina::testing
