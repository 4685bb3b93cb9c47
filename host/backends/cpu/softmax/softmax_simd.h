// The table of softmax functions of one instruction set. Private to softmax*.cc.
#pragma once

#include "backends/cpu/softmax/softmax.h"

namespace lamina::cpu {

// Works on rows [begin, end).
struct SoftmaxFunctions {
  void (*rows)(const Softmax& p, std::int64_t begin, std::int64_t end);

  static const SoftmaxFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
