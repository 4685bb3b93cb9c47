// Adapters as PEFT keeps them: adapter_config.json beside adapter_model.safetensors.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "decoder/model.h"
#include "io/durable_file.h"

namespace lamina::weights {

// What adapter_config.json says of a LoRA.
struct PeftConfig {
  std::int64_t rank = 0;
  double alpha = 0;
  double dropout = 0;
  bool rslora = false;
  bool dora = false;
  std::vector<std::string> target_modules;  // or "all-linear" alone
  std::string base;                         // base_model_name_or_path

  double scale() const;
};

// Errors (class checkpoint): damaged, another kind of adapter, or a feature that lamina lacks, by
// name.
PeftConfig read_peft_config(const std::string& directory);
std::string peft_config_text(const PeftConfig& config);

// Writes adapter_model.safetensors of a model with an adapter, in f32, and returns its checksums.
// `values` gives those of a parameter.
using ParameterValues = std::function<std::span<const float>(int parameter)>;
std::vector<io::FileDigest> write_adapter(const decoder::Model& model, const std::string& directory,
                                          const ParameterValues& values);

// The matrix that computes what `weight` and its adapter do, in place: weight += scale b a, and
// with DoRA its rows then get their lengths. REQUIRES: the model has an adapter.
bool has_adapter(const decoder::Model& model, int parameter);
void merge_adapter(const decoder::Model& model, int parameter, const ParameterValues& values,
                   std::span<float> weight);

// The lengths of rows that DoRA begins with, those of the matrix itself, for an adapter whose b is
// 0. REQUIRES: `parameter` holds such lengths.
void start_magnitudes(const decoder::Model& model, int parameter, const ParameterValues& values,
                      std::span<float> out);

}  // namespace lamina::weights
