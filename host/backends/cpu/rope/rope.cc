// Distributes the tokens of rope over threads.
#include "backends/cpu/rope/rope.h"

#include <algorithm>

#include "backends/cpu/rope/rope_simd.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

const RopeFunctions& functions() { return isa_table<RopeFunctions>(); }

std::int64_t min_tokens(std::int64_t elements_per_token, std::int64_t min_elements) {
  return std::max<std::int64_t>(1, min_elements / std::max<std::int64_t>(1, elements_per_token));
}

}  // namespace

void rope_table(const RopeTable& p) {
  parallel_ranges(p.num_tokens, min_tokens(p.num_frequencies, 1024),
                  [&](std::int64_t begin, std::int64_t end) { functions().table(p, begin, end); });
}

void rope_apply(const RopeApply& p) {
  LAMINA_ASSERT(p.dtype == DType::f32 || p.dtype == DType::bf16 || p.dtype == DType::f64);
  LAMINA_ASSERT(p.rotary_dim % 2 == 0 && p.rotary_dim <= p.head_dim);
  parallel_ranges(p.num_tokens, min_tokens(p.num_heads * p.head_dim, 8192),
                  [&](std::int64_t begin, std::int64_t end) { functions().apply(p, begin, end); });
}

}  // namespace lamina::cpu
