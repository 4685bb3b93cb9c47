// Problems, instruction sets and tolerances that tests of attention share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "attention_problem.h"
#include "backends/cpu/threads/isa.h"
#include "isas.h"

namespace lamina::cpu {

inline AttentionSpec make_spec(std::int64_t batch, std::int64_t q_tokens, std::int64_t kv_tokens,
                               std::int64_t heads, std::int64_t kv_heads, std::int64_t qk_dim,
                               std::int64_t v_dim) {
  AttentionSpec s{.batch = batch,
                  .q_tokens = q_tokens,
                  .kv_tokens = kv_tokens,
                  .heads = heads,
                  .kv_heads = kv_heads,
                  .qk_dim = qk_dim,
                  .v_dim = v_dim};
  s.scale = 1 / std::sqrt(static_cast<double>(qk_dim));
  return s;
}

// A cache whose rows have `starts` old tokens; empty slots are NaN.
inline AttentionProblem cached_problem(AttentionSpec spec, std::vector<std::int32_t> starts,
                                       bool ring, unsigned seed = 3) {
  spec.batch = static_cast<std::int64_t>(starts.size());
  AttentionProblem p = random_problem(spec, seed);
  p.starts = std::move(starts);
  p.ring = ring;
  for (std::int64_t b = 0; b < spec.batch; ++b)
    for (std::int64_t s = p.starts[static_cast<std::size_t>(b)] + spec.q_tokens; s < spec.kv_tokens;
         ++s) {
      std::fill_n(p.k.begin() + (b * spec.kv_tokens + s) * spec.kv_heads * spec.qk_dim,
                  spec.kv_heads * spec.qk_dim, NAN);
      std::fill_n(p.v.begin() + (b * spec.kv_tokens + s) * spec.kv_heads * spec.v_dim,
                  spec.kv_heads * spec.v_dim, NAN);
    }
  return p;
}

inline std::vector<Isa> isas() {
  std::vector<Isa> all;
  for (Isa isa : kIsas)
    if (isa <= best_isa()) all.push_back(isa);
  return all;
}

inline void expect_close(const AttentionResults& got, const AttentionResults& want, DType dtype,
                         double ease = 1) {
  const double exact = ease * (dtype == DType::f32 ? 2e-5 : 1e-2);
  const double gradient = ease * (dtype == DType::f32 ? 5e-5 : 2e-2);
  EXPECT_LT(difference(got.o, want.o), exact);
  EXPECT_LT(difference(got.lse, want.lse), dtype == DType::f32 ? 1e-6 : 1e-5);
  EXPECT_LT(difference(got.dq, want.dq), gradient);
  EXPECT_LT(difference(got.dk, want.dk), gradient);
  EXPECT_LT(difference(got.dv, want.dv), gradient);
  EXPECT_LT(difference(got.dsinks, want.dsinks), gradient);
  EXPECT_LT(difference(got.dslopes, want.dslopes), gradient);
  EXPECT_LT(difference(got.dtable, want.dtable), gradient);
}

// The reference gets the products of numbers and scales in double.
inline AttentionResults reference_of_numbers(AttentionProblem p) {
  const CachedRows cached = std::exchange(p.spec.cached, CachedRows::plain);
  p.k = to_numbers(p.k, p.spec.qk_dim, cached).values;
  p.v = to_numbers(p.v, p.spec.v_dim, cached).values;
  return run_attention(p, DType::f64);
}

}  // namespace lamina::cpu
