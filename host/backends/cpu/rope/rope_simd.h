// The table of rope functions of one instruction set. Private to rope*.cc.
#pragma once

#include "backends/cpu/rope/rope.h"

namespace lamina::cpu {

// Each works on tokens [begin, end).
struct RopeFunctions {
  void (*table)(const RopeTable& p, std::int64_t begin, std::int64_t end);
  void (*apply)(const RopeApply& p, std::int64_t begin, std::int64_t end);

  static const RopeFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
