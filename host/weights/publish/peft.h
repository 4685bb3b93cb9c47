// Weights of adapters: adapter_model.safetensors, and merging them into matrices.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "decoder/model.h"
#include "io/durable_file.h"
#include "weights/publish/published_form.h"

namespace lamina::weights {

// Writes adapter_model.safetensors of a model with an adapter, in f32, and returns its checksums.
// Tensors have PEFT's names for the class in which `form` was published; null: for the class of the
// family. `values` returns the values of a parameter.
using ParameterValues = std::function<std::span<const float>(int parameter)>;
std::vector<io::FileDigest> write_adapter(const decoder::Model& model, const PublishedForm* form,
                                          const std::string& directory,
                                          const ParameterValues& values);

// Merges the adapter of `weight` into it, in place: weight += scale b a; with DoRA, its rows are
// then rescaled to the trained norms. REQUIRES: the model has an adapter.
bool has_adapter(const decoder::Model& model, int parameter);
void merge_adapter(const decoder::Model& model, int parameter, const ParameterValues& values,
                   std::span<float> weight);

// Computes DoRA's initial row norms, the norms of the matrix itself, for an adapter with b = 0.
// REQUIRES: `parameter` contains such norms.
void start_magnitudes(const decoder::Model& model, int parameter, const ParameterValues& values,
                      std::span<float> out);

}  // namespace lamina::weights
