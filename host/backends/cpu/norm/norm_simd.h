// The table of norm functions of one instruction set. Private to norm*.cc.
#pragma once

#include "backends/cpu/norm/norm.h"

namespace lamina::cpu {

// Functions for rows [begin, end). The backward ones add to dweight and dbias (null: not computed),
// which the caller has cleared.
struct NormFunctions {
  void (*rms_forward)(const RmsNormForward& p, std::int64_t begin, std::int64_t end);
  void (*rms_backward)(const RmsNormBackward& p, std::int64_t begin, std::int64_t end,
                       float* dweight);
  void (*layer_forward)(const LayerNormForward& p, std::int64_t begin, std::int64_t end);
  void (*layer_backward)(const LayerNormBackward& p, std::int64_t begin, std::int64_t end,
                         float* dweight, float* dbias);
  // to[i] = the sum over k < count, in order, of from[k * stride + i], for i < n.
  void (*add_up)(float* to, const float* from, std::int64_t stride, std::int64_t count,
                 std::int64_t n);

  static const NormFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
