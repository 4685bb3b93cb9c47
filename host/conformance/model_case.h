// A model with its weights, as checks of numbers take it: every run of one gives the same.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "decoder/model.h"
#include "inspect/verify/forward.h"
#include "program/rows.h"
#include "runtime/backend.h"
#include "train/optimizer/train_state.h"
#include "weights/weights.h"

namespace lamina::conformance {

// What computes.
struct Compute {
  const Backend* backend = nullptr;
  std::function<void(int count)> set_threads = {};
};

struct ModelCase {
  std::string name;
  std::function<decoder::Model(bool scan_layers)> open;
  // The weights, in the type that graphs computing in `compute` read.
  std::function<weights::Weights(const decoder::Model& model, DType compute)> load;
  Compute compute;
  // Where sums are taken in another order, relative to the largest value: of what layers give, and
  // of gradients.
  double hidden_tolerance = 2e-5, gradient_tolerance = 2e-5;

  const Backend& backend() const { return *compute.backend; }
  std::vector<float> forward(const decoder::Model& model, std::span<void* const> parameters,
                             const program::Rows& rows, DType dtype = DType::f32) const;
  // A fresh training state with the weights.
  std::unique_ptr<train::TrainState> load_state(const decoder::Model& model,
                                                DType compute_in = DType::f32,
                                                bool accumulate = false) const;
};

// Throws Skipped where the model's blocks do not build in float64, in which the kit computes
// slopes: no run of a user does.
void require_float64(const decoder::Model& model);

}  // namespace lamina::conformance
