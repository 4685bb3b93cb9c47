// Values of models, and how far apart they are.
#pragma once

#include <span>
#include <vector>

#include "decoder/model.h"

namespace lamina::conformance {

// Copies of a model's parameters (or of their gradients), one array each.
std::vector<std::vector<float>> copy_of(const decoder::Model& model, std::span<void* const> from);
std::vector<std::vector<float>> copy_of(const decoder::Model& model, std::span<float* const> from);

// Largest |a - b|, and that over the largest |b|; infinite for NaNs and different sizes.
double difference(std::span<const float> a, std::span<const float> b);
double relative_difference(std::span<const float> a, std::span<const float> b);
double largest_magnitude(std::span<const float> values);
// The same bits, NaNs included.
bool same_bits(std::span<const float> a, std::span<const float> b);

// The weights times 1 + by or 1 - by at random: what that changes is what a model makes of
// rounding.
void disturb(std::span<float> weights, double by, unsigned seed = 1);

}  // namespace lamina::conformance
