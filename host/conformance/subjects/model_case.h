// A model with its weights for numeric checks: every run of one gives the same numbers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "decoder/model.h"
#include "inspect/verify/forward.h"
#include "program/rows.h"
#include "runtime/backend.h"
#include "train/optimizer/train_state.h"
#include "weights/weights.h"

namespace lamina::conformance {

// The compute settings.
struct Compute {
  const Backend* backend = nullptr;
  std::function<void(int count)> set_threads = {};
};

struct ModelCase {
  std::string name;
  std::function<decoder::Model(bool scan_layers)> open;
  // The weights, in the type for graphs that compute in `compute`.
  std::function<weights::Weights(const decoder::Model& model, DType compute)> load;
  Compute compute;
  // Tolerance for sums in another order, relative to the largest value: for outputs of layers, and
  // for gradients.
  double hidden_tolerance = 2e-5, gradient_tolerance = 2e-5;

  const Backend& backend() const { return *compute.backend; }
  std::vector<float> forward(const decoder::Model& model,
                             std::span<const ConstTensorRef> parameters, const program::Rows& rows,
                             DType dtype = DType::f32) const;
  // A fresh training state with the weights.
  std::unique_ptr<train::TrainState> load_state(const decoder::Model& model,
                                                DType compute_in = DType::f32,
                                                bool accumulate = false) const;
};

// Returns the number of nodes in the model's graph of training that have an attribute of this name
// with another value than its default.
std::size_t num_uses(const decoder::Model& model, std::string_view attribute);

// Throws Skipped if the model's blocks do not build in float64, in which the kit compares
// gradients; user runs never compute in float64.
void require_float64(const decoder::Model& model);

}  // namespace lamina::conformance
