// Weights of a model as tensors of published files, and back.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/backend.h"
#include "io/weight_files.h"
#include "support/models.h"
#include "support/tensor_file.h"
#include "weights/match/tensor_map.h"
#include "weights/publish/published.h"

namespace lamina::testing {

// One element per parameter.
using ParameterValues = std::vector<std::vector<float>>;

inline ParameterValues fresh_values(const decoder::Model& model) {
  const auto weights = weights::Weights::initialise(model, 5, DType::f32, cpu::cpu_backend());
  return copy_of(model, weights.pointers());
}

inline ParameterValues values_in(const std::string& folder, const decoder::Model& model) {
  const auto files = std::make_shared<io::WeightFiles>(folder);
  const auto weights = weights::Weights::load(model, files, DType::f32, cpu::cpu_backend());
  return copy_of(model, weights.pointers());
}

inline std::vector<FileTensor> published_form(const decoder::Model& model,
                                              const ParameterValues& values) {
  const weights::TensorMap map = weights::published_tensors(model);
  std::vector<FileTensor> out;
  for (const weights::PublishedTensor& tensor : map.tensors()) {
    const auto part = [&](int p, std::int64_t first, std::int64_t count) {
      return std::span<const float>(values[static_cast<std::size_t>(p)])
          .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    };
    out.push_back(
        {tensor.name, tensor.shape, weights::assemble(map, static_cast<int>(out.size()), part)});
  }
  return out;
}

}  // namespace lamina::testing
