// The table of row functions of one instruction set. Private to rows*.cc.
#pragma once

#include "backends/cpu/experts/rows.h"

namespace lamina::cpu {

// Functions for tokens, or rows, [begin, end).
struct RowsFunctions {
  void (*combine)(const CombineRows& p, std::int64_t begin, std::int64_t end);
  void (*combine_grad)(const CombineRowsGrad& p, std::int64_t begin, std::int64_t end);

  static const RowsFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
