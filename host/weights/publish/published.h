// Converts published tensors to values of parameters, and back.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/workers.h"
#include "weights/match/tensor_map.h"

namespace lamina::weights {

// Values that a thread reads before it takes the next part.
inline constexpr std::int64_t kValuesOfPart = 1 << 18;

// Receives consecutive stretches of a parameter, starting at element `first`.
using ValueSink = std::function<void(std::int64_t first, std::span<const float> values)>;

// Reads a parameter in f32, row-major, in stretches of bounded size; with `workers` in parallel, so
// that `sink` is called by several threads and in any order.
// REQUIRES: `map` is match_weights(model, files), and the parameter has pieces.
void read_parameter(const TensorMap& map, const io::WeightFiles& files, int parameter,
                    const ValueSink& sink, const Workers& workers = {});
// Reads elements first, first + 1, .. of a parameter.
void read_parameter(const TensorMap& map, const io::WeightFiles& files, int parameter,
                    std::int64_t first, std::span<float> out);

// Returns `count` elements of a parameter (or of its gradient), starting at `first`; borrowed until
// the next call.
using ValueSource =
    std::function<std::span<const float>(int parameter, std::int64_t first, std::int64_t count)>;

// Assembles a published tensor from our parameters. For gradients, the chain rule is applied to the
// factors of the map, and elements without a parameter are 0.
enum class Values { weights, gradients };
std::vector<float> assemble(const TensorMap& map, int tensor, const ValueSource& ours,
                            Values values = Values::weights);

}  // namespace lamina::weights
