// The table of softmax functions of one instruction set. Private to softmax*.cc.
#pragma once

#include "backends/cpu/softmax/softmax.h"

namespace lamina::cpu {

// Each works on rows [begin, end).
struct SoftmaxFunctions {
  void (*forward)(const SoftmaxForward& p, std::int64_t begin, std::int64_t end);
  void (*backward)(const SoftmaxBackward& p, std::int64_t begin, std::int64_t end);

  static const SoftmaxFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
