// The table of row functions of one instruction set. Private to embedding*.cc.
#pragma once

#include <cstdint>

namespace lamina::cpu {

using EmbeddingAdd = void (*)(float* to, const void* from, std::int64_t n);

struct EmbeddingFunctions {
  EmbeddingAdd add[2];  // [from is bf16]

  static const EmbeddingFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
