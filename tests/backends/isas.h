// The instruction sets for which kernels are tested.
#pragma once

#include <array>

#include "backends/cpu/threads/isa.h"

namespace lamina::cpu {

inline constexpr std::array<Isa, 4> kIsas = {Isa::portable, Isa::avx2, Isa::avx512,
                                             Isa::avx512_bf16};

}  // namespace lamina::cpu
