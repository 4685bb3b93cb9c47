// The weights of adapters: adapter_model.safetensors, and what they add to the matrices.
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
// Tensors are called as PEFT calls them for the class that `form` was published as; null: for the
// class of the family. `values` gives the values of a parameter.
using ParameterValues = std::function<std::span<const float>(int parameter)>;
std::vector<io::FileDigest> write_adapter(const decoder::Model& model, const PublishedForm* form,
                                          const std::string& directory,
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
