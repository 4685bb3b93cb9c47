// Copies and compares values of models.
#pragma once

#include <span>
#include <vector>

#include "decoder/model.h"
#include "runtime/backend.h"

namespace lamina::conformance {

// Copies of a model's parameters (or of their gradients), f32 or i32, one array each; zeros where
// there is none. After all work of `backend`.
std::vector<std::vector<float>> copy_of(const decoder::Model& model,
                                        std::span<const ConstTensorRef> from,
                                        const Backend& backend);
std::vector<std::vector<float>> copy_of(const decoder::Model& model,
                                        std::span<const TensorRef> from, const Backend& backend);

// Largest |a - b|, and the same divided by the largest |b|; infinite for NaNs and different sizes.
double difference(std::span<const float> a, std::span<const float> b);
double relative_difference(std::span<const float> a, std::span<const float> b);
double largest_magnitude(std::span<const float> values);
// True if all bits are equal, also in NaNs.
bool same_bits(std::span<const float> a, std::span<const float> b);

// Multiplies each weight by 1 + by or 1 - by at random: the change in the results shows how a model
// magnifies rounding.
void disturb(std::span<float> weights, double by, unsigned seed = 1);

}  // namespace lamina::conformance
