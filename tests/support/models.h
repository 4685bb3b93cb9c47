// Small models that whole-model tests run over: every golden case of a family that is built, and
// every TOML file of tests/support/models with fresh weights. A new file is a new model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "decoder/model.h"
#include "inspect/verify/forward.h"
#include "registry/discovery.h"
#include "train/train_step.h"
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

// The model's weights, in the type that graphs computing in `compute` read.
weights::Weights load_weights(const TestModel& from, const decoder::Model& model,
                              DType compute = DType::f32);
// A fresh training state with these weights.
std::unique_ptr<train::TrainState> load_state(const TestModel& from, const decoder::Model& model,
                                              DType compute = DType::f32, bool accumulate = false);

using program::Rows;

// One document a row; labels are the next token, some of them (and the last) not counted.
Rows random_rows(const decoder::Model& model, std::int64_t batch, std::int64_t tokens,
                 unsigned seed = 1);
// The documents one after the other in one row, padded with segment 0 up to `tokens`.
Rows pack(const std::vector<Rows>& documents, std::int64_t tokens);

// The number of tokens that tests give this model: past windows and original contexts, but no more
// than it has positions for.
std::int64_t test_tokens(const decoder::Model& model);

std::vector<float> forward(const decoder::Model& model, std::span<void* const> parameters,
                           const Rows& rows, DType dtype = DType::f32);
inspect::ForwardResult forward_with_hidden(const decoder::Model& model,
                                           std::span<void* const> parameters, const Rows& rows);

// Copies of a state's tensors, one per parameter.
std::vector<std::vector<float>> copy_of(const decoder::Model& model, std::span<void* const> from);
std::vector<std::vector<float>> copy_of(const decoder::Model& model, std::span<float* const> from);

// Largest |a - b|, and that over the largest |b|; infinite for NaNs and different sizes.
double difference(std::span<const float> a, std::span<const float> b);
double relative_difference(std::span<const float> a, std::span<const float> b);
// The weights times 1 + by or 1 - by at random: what that changes is what a model makes of
// rounding.
void disturb(std::span<float> weights, double by, unsigned seed = 1);
// The same bits, NaNs included.
bool same_bits(std::span<const float> a, std::span<const float> b);

}  // namespace lamina::testing
