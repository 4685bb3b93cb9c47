// How parameters start.
#pragma once

#include <cstdint>
#include <span>

#include "decoder/stack/parameter.h"

namespace lamina::weights {

// The initial value of a parameter, f32: a function of its declaration, its name and the seed
// alone, by counter-based draws.
void initialise(const decoder::Parameter& parameter, std::uint64_t seed, std::span<float> out);

}  // namespace lamina::weights
