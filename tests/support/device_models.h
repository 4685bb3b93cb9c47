// Whole models on a backend, from the same random weights on each: for comparing devices.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <vector>

#include "decode/session.h"
#include "runtime/host_access.h"
#include "support/models.h"
#include "train/loop/train_step.h"

namespace lamina::testing {

inline constexpr std::uint64_t kWeightsSeed = 7;

inline weights::Weights weights_on(const Backend& backend, const decoder::Model& model,
                                   DType dtype) {
  return weights::Weights::initialise(model, kWeightsSeed, dtype, backend);
}

inline void initialise(train::TrainState& state, const decoder::Model& model) {
  for (std::size_t i = 0; i < state.masters().size(); ++i)
    write_tensor<float>(state.queue(), state.masters()[i], [&](std::span<float> values) {
      weights::initialise(model.parameters().all()[i], kWeightsSeed, values);
    });
  state.refresh_copies();
}

// Returns the logits after each call of a session in f32 that reads `ids` in calls of these sizes,
// again and again.
inline std::vector<float> decoded(const decoder::Model& model, std::span<const std::int32_t> ids,
                                  std::initializer_list<std::size_t> sizes,
                                  const Backend& backend) {
  const weights::Weights weights = weights_on(backend, model, DType::f32);
  decode::Session session(model, weights.pointers(), {.capacity = 64, .call_tokens = 8}, backend);
  std::vector<float> out;
  for (std::size_t call = 0; !ids.empty(); ++call) {
    const std::size_t count = std::min(sizes.begin()[call % sizes.size()], ids.size());
    const auto logits = session.append(ids.first(count));
    out.insert(out.end(), logits.begin(), logits.end());
    ids = ids.subspan(count);
  }
  return out;
}

}  // namespace lamina::testing
