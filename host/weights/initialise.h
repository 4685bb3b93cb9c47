// Initial values of parameters.
#pragma once

#include <cstdint>
#include <span>

#include "decoder/stack/parameter.h"

namespace lamina::weights {

// Computes the initial value of a parameter in f32. It depends only on the declaration, the name
// and the seed (counter-based draws).
void initialise(const decoder::Parameter& parameter, std::uint64_t seed, std::span<float> out);

}  // namespace lamina::weights
