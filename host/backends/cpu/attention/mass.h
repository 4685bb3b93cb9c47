// The attention that each key receives from all heads together, on the CPU: the sum of their
// softmaxes. Computes at most a block of queries of one head at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace lamina::cpu {

struct MassSpec {
  DType dtype = DType::f32;  // of q and k: f32 or bf16
  std::int64_t batch = 0, q_tokens = 0, k_tokens = 0, heads = 0, dim = 0;
  double scale = 1;
};

// p[b, t, s] = sum over n of softmax over the kept s of scale q[b, t, n] . k[b, s, n]; all
// contiguous. A query that keeps no key has zeros.
struct MassArgs {
  const void *q = nullptr, *k = nullptr;
  const std::uint8_t* keep = nullptr;  // [batch, q_tokens, k_tokens]
  float* p = nullptr;
};

// Returns the bytes of workspace for a run, aligned to 64; they depend on the spec and on
// num_threads().
std::size_t attention_mass_workspace_bytes(const MassSpec& spec);
void attention_mass(const MassSpec& spec, const MassArgs& args, std::byte* workspace);

}  // namespace lamina::cpu
