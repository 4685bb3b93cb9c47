// The table of cross-entropy functions of one instruction set. Private to cross_entropy*.cc.
#pragma once

#include "backends/cpu/cross_entropy/cross_entropy.h"

namespace lamina::cpu {

// Functions for rows [begin, end).
struct CrossEntropyFunctions {
  void (*add_tile)(const CrossEntropyRows& rows, const CrossEntropyTile& tile, std::int64_t begin,
                   std::int64_t end);
  void (*gradient)(const CrossEntropyRows& rows, const CrossEntropyTile& tile,
                   const CrossEntropyGradient& gradient, std::int64_t begin, std::int64_t end);

  static const CrossEntropyFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
