#include "conformance/model_case.h"

#include <algorithm>

#include "conformance/compare.h"

namespace lamina::conformance {

std::vector<float> ModelCase::forward(const decoder::Model& model,
                                      std::span<void* const> parameters, const program::Rows& rows,
                                      DType dtype) const {
  return inspect::forward(model, parameters, rows, {.dtype = dtype}, backend()).logits;
}

std::unique_ptr<train::TrainState> ModelCase::load_state(const decoder::Model& model,
                                                         DType compute_in, bool accumulate) const {
  auto state =
      std::make_unique<train::TrainState>(model.parameters(), compute_in, accumulate, backend());
  const weights::Weights weights = load(model, DType::f32);
  const std::vector<std::vector<float>> values = copy_of(model, weights.pointers());
  for (std::size_t i = 0; i < values.size(); ++i) std::ranges::copy(values[i], state->masters()[i]);
  state->refresh_copies();
  return state;
}

}  // namespace lamina::conformance
