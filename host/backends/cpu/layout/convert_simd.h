// The table of conversions of one instruction set. Private to convert*.cc.
#pragma once

#include <cstdint>

namespace lamina::cpu {

using ConvertRun = void (*)(void* y, const void* x, std::int64_t n);

// Order of types in the table.
enum ConvertType { kConvertF32, kConvertBf16, kConvertF16, kConvertF64, kNumConvertTypes };

struct ConvertFunctions {
  ConvertRun run[kNumConvertTypes][kNumConvertTypes];  // [from][to]

  static const ConvertFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
