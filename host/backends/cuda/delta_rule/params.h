// Parameters of the kernels of gated_delta_rule, its gradient and its step.
#pragma once

#include "backends/cuda/matrix_scan/recurrence_params.h"

namespace lamina::cuda {

// Tokens of a chunk of the gradient, and value channels that it has in shared memory at a time.
inline constexpr int kDeltaChunk = 32, kDeltaColumns = 16;

struct DeltaRuleParams {
  Recurrence tokens;
  std::int64_t key_heads;
  gpu::TypedAddress q, k;     // [batch, tokens, key_heads, key_width]
  gpu::TypedAddress g, beta;  // [batch, tokens, heads]
  std::int32_t normalize;
  float scale;
};

struct DeltaRuleGradParams {
  DeltaRuleParams rule;
  gpu::TypedAddress dq, dk, dv, dg, dbeta;
};

// A tensor of any floating type.
enum class FloatType : std::int32_t { f32, bf16, f16, f64 };
struct Floats {
  gpu::Address at;
  FloatType type;
};

// The gradient for all types and sizes.
struct DeltaReferenceParams {
  std::int64_t batch, tokens, key_heads, heads, key_width, value_width;
  std::int32_t normalize;
  double scale;
  Floats q, k, v, g, beta, dy;
  Floats dq, dk, dv, dg, dbeta;
  gpu::Address segments;   // [batch, tokens], or null: a new segment resets the state
  gpu::Address workspace;  // f64, workspace_doubles per block
  std::int64_t workspace_doubles;
};

}  // namespace lamina::cuda
