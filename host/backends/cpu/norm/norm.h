// RMS and layer normalisation over the last dim, forward and backward, f32 or bf16 rows.
//
//   rms_norm_forward({.dtype = DType::bf16, .rows = tokens, .width = 4096, .x = x, .y = y,
//                     .weight = w, .weight_dtype = DType::bf16, .eps = 1e-6f});
//
// Rows are adjacent. Statistics and arithmetic are in f32; results are rounded once, when they are
// stored. Sums have one order for any number of threads. Nothing is allocated. [any thread]
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace lamina::cpu {

struct RmsNormForward {
  DType dtype;  // of x, y, residual and sum: f32 or bf16
  std::int64_t rows, width;
  const void* x = nullptr;
  const void* residual = nullptr;   // optional: h = round(x + residual) is normalised instead,
  void* sum = nullptr;              // and written here
  void* y = nullptr;                // h * rsqrt(mean(h^2) + eps) * (offset + weight)
  const void* weight = nullptr;     // [width], optional: factor 1
  DType weight_dtype = DType::f32;  // f32 or bf16
  float eps;
  float offset = 0;
};
void rms_norm_forward(const RmsNormForward& p);

struct RmsNormBackward {
  DType dtype;  // of x, dy and dx
  std::int64_t rows, width;
  const void* x = nullptr;  // the normalised values (sum, if there was a residual)
  const void* dy = nullptr;
  void* dx = nullptr;  // may be dy
  const void* weight = nullptr;
  DType weight_dtype = DType::f32;
  float* dweight = nullptr;  // [width], optional; overwritten
  float eps;
  float offset = 0;
  float* workspace = nullptr;  // norm_workspace_bytes(rows, width, 1); not needed without dweight
};
void rms_norm_backward(const RmsNormBackward& p);

struct LayerNormForward {
  DType dtype;  // of x and y
  std::int64_t rows, width;
  const void* x = nullptr;
  void* y = nullptr;                // (x - mean) * rsqrt(var + eps) * (offset + weight) + bias
  const void* weight = nullptr;     // [width], optional
  const void* bias = nullptr;       // [width], optional
  DType weight_dtype = DType::f32;  // of weight and bias
  float eps;
  float offset = 0;
};
void layer_norm_forward(const LayerNormForward& p);

struct LayerNormBackward {
  DType dtype;
  std::int64_t rows, width;
  const void* x = nullptr;
  const void* dy = nullptr;
  void* dx = nullptr;  // may be dy
  const void* weight = nullptr;
  DType weight_dtype = DType::f32;
  float* dweight = nullptr;  // [width], optional; overwritten
  float* dbias = nullptr;    // [width], optional; overwritten
  float eps;
  float offset = 0;
  float* workspace = nullptr;  // norm_workspace_bytes(.., number of gradients in dweight, dbias)
};
void layer_norm_backward(const LayerNormBackward& p);

// Bytes for the partial sums of `num_gradients` gradients of length width.
std::size_t norm_workspace_bytes(std::int64_t rows, std::int64_t width, int num_gradients);

// The functions of one instruction set, for rows [begin, end). Private to this folder. The backward
// ones add to dweight and dbias (null: not computed), which the caller has cleared.
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
