// RMS and layer normalisation over the last dim, forward and backward, f32 or bf16 rows.
//
//   rms_norm_forward({.dtype = DType::bf16, .size = {tokens, 1, 4096},
//                     .x = {x, {4096, 0}}, .y = {y, {4096, 0}},
//                     .weight = w, .weight_dtype = DType::bf16, .eps = 1e-6f});
//
// Statistics and arithmetic are in f32; results are rounded once, on the way out. Sums are made in
// one order, whatever the number of threads. Nothing is allocated. [any thread]
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace lamina::cpu {

// outer * inner rows of `width` elements, eg: {tokens, heads, head_dim}; inner is 1 for plain rows.
struct NormSize {
  std::int64_t outer, inner, width;
};

// Row (o, i) starts o * outer + i * inner elements from the first.
struct RowStrides {
  std::int64_t outer, inner;
};
struct ConstRows {
  const void* data = nullptr;
  RowStrides strides = {};
};
struct Rows {
  void* data = nullptr;
  RowStrides strides = {};
};

struct RmsNormForward {
  DType dtype;  // of x, y, residual and sum: f32 or bf16
  NormSize size;
  ConstRows x;
  ConstRows residual;               // optional: h = round(x + residual) is normalised instead,
  Rows sum;                         // and written here
  Rows y;                           // h * rsqrt(mean(h^2) + eps) * (offset + weight)
  const void* weight = nullptr;     // [width], optional: factor 1
  DType weight_dtype = DType::f32;  // f32 or bf16
  float eps;
  float offset = 0;
  // Llama's and MaxText's order of roundings: the normalised value and (offset + weight) are
  // rounded to dtype before they are multiplied. Otherwise there is one rounding at the end
  // (Gemma).
  bool round_before_weight = false;
  bool sum_of_squares = false;  // sum(h^2) in place of mean(h^2)
};
void rms_norm_forward(const RmsNormForward& p);

struct RmsNormBackward {
  DType dtype;  // of x, dy, dresidual and dx
  NormSize size;
  ConstRows x;  // what was normalised (sum, if there was a residual)
  ConstRows dy;
  ConstRows dresidual;  // optional: added to dx, before its rounding
  Rows dx;              // may be dy or dresidual
  const void* weight = nullptr;
  DType weight_dtype = DType::f32;
  float* dweight = nullptr;  // [width], optional; overwritten
  float eps;
  float offset = 0;
  bool round_before_weight = false;
  bool sum_of_squares = false;
  float* workspace = nullptr;  // norm_workspace_bytes(size, 1); not needed without dweight
};
void rms_norm_backward(const RmsNormBackward& p);

struct LayerNormForward {
  DType dtype;  // of x and y
  NormSize size;
  ConstRows x;
  Rows y;                           // (x - mean) * rsqrt(var + eps) * (offset + weight) + bias
  const void* weight = nullptr;     // [width], optional
  const void* bias = nullptr;       // [width], optional
  DType weight_dtype = DType::f32;  // of weight and bias
  float eps;
  float offset = 0;
};
void layer_norm_forward(const LayerNormForward& p);

struct LayerNormBackward {
  DType dtype;
  NormSize size;
  ConstRows x;
  ConstRows dy;
  ConstRows dresidual;  // optional: added to dx, before its rounding
  Rows dx;              // may be dy or dresidual
  const void* weight = nullptr;
  DType weight_dtype = DType::f32;
  float* dweight = nullptr;  // [width], optional; overwritten
  float* dbias = nullptr;    // [width], optional; overwritten
  float eps;
  float offset = 0;
  float* workspace = nullptr;  // norm_workspace_bytes(size, dweight and dbias asked for)
};
void layer_norm_backward(const LayerNormBackward& p);

// Bytes for the partial sums of `num_gradients` gradients of length width.
std::size_t norm_workspace_bytes(const NormSize& size, int num_gradients);

}  // namespace lamina::cpu
