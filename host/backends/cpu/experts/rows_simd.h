// The table of row functions of one instruction set. Private to rows*.cc.
#pragma once

#include "backends/cpu/experts/rows.h"

namespace lamina::cpu {

// Each works on tokens, or rows, [begin, end).
struct RowsKernels {
  void (*combine)(const CombineRows& p, std::int64_t begin, std::int64_t end);
  void (*combine_grad)(const CombineRowsGrad& p, std::int64_t begin, std::int64_t end);
};
extern const RowsKernels kRowsAvx512, kRowsAvx2, kRowsPortable;

}  // namespace lamina::cpu
