// Attention as its definition says, in plain loops and double: slow, and the oracle of the kernels.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/mask.h"
#include "backends/cpu/device/threads.h"
#include "core/error.h"
#include "core/float16.h"

namespace lamina::cpu::reference {
namespace {

double get(DType dtype, const void* data, std::int64_t i) {
  switch (dtype) {
    case DType::f64:
      return static_cast<const double*>(data)[i];
    case DType::f32:
      return static_cast<const float*>(data)[i];
    default:
      return to_float(static_cast<const bfloat16*>(data)[i]);
  }
}

void set(DType dtype, void* data, std::int64_t i, double x) {
  switch (dtype) {
    case DType::f64:
      static_cast<double*>(data)[i] = x;
      break;
    case DType::f32:
      static_cast<float*>(data)[i] = static_cast<float>(x);
      break;
    default:
      static_cast<bfloat16*>(data)[i] = to_bfloat16(static_cast<float>(x));
  }
}

DType real(const AttentionSpec& spec) { return sum_dtype(spec.dtype); }

std::int64_t at(const AttentionStrides& s, std::int64_t b, std::int64_t t, std::int64_t n) {
  return b * s.batch + t * s.token + n * s.head;
}

// One query of one head: its place, its probabilities, and what follows from them.
struct Query {
  const AttentionSpec& spec;
  RowMasks row;
  std::int64_t b, n, t;
  std::int64_t kv_head() const { return n / (spec.heads / spec.kv_heads); }
};

struct Softmax {
  double max_logit = -std::numeric_limits<double>::infinity();  // without the sink
  double lse = -std::numeric_limits<double>::infinity();
};

double dot(DType dtype, const void* a, std::int64_t ia, const void* b, std::int64_t ib,
           std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += get(dtype, a, ia + i) * get(dtype, b, ib + i);
  return sum;
}

// Fills p[s] for every key, 0 where it is not allowed, and x[s] (after the cap) where it is.
Softmax softmax(const Query& query, const AttentionInput& q, const AttentionInput& k,
                const void* sinks, DType sinks_dtype, double* x, double* p) {
  const AttentionSpec& spec = query.spec;
  Softmax result;
  for (std::int64_t s = 0; s < query.row.num_keys; ++s) {
    p[s] = 0;
    if (!allowed(spec, query.row, query.n, query.t, s)) continue;
    p[s] = 1;
    x[s] = spec.scale * dot(spec.dtype, q.data, at(q.strides, query.b, query.t, query.n), k.data,
                            at(k.strides, query.b, s, query.kv_head()), spec.qk_dim);
    if (spec.soft_cap != 0) x[s] = spec.soft_cap * std::tanh(x[s] / spec.soft_cap);
    result.max_logit = std::max(result.max_logit, x[s]);
  }
  double max = result.max_logit, sum = 0;
  if (sinks) {
    const double sink = sink_of<double>(sinks, sinks_dtype, query.n);
    max = std::max(max, sink);
    sum = std::exp(sink - max);
  }
  for (std::int64_t s = 0; s < query.row.num_keys; ++s)
    if (p[s] != 0) sum += p[s] = std::exp(x[s] - max);
  if (sum == 0) return result;
  for (std::int64_t s = 0; s < query.row.num_keys; ++s) p[s] /= sum;
  result.lse = max + std::log(sum);
  return result;
}

void forward_query(const Query& query, const AttentionForwardArgs& args, double* x, double* p) {
  const AttentionSpec& spec = query.spec;
  const Softmax stats = softmax(query, args.q, args.k, args.sinks, args.sinks_dtype, x, p);
  for (std::int64_t i = 0; i < spec.v_dim; ++i) {
    double sum = 0;
    for (std::int64_t s = 0; s < query.row.num_keys; ++s)
      if (p[s] != 0)
        sum += p[s] *
               get(spec.dtype, args.v.data, at(args.v.strides, query.b, s, query.kv_head()) + i);
    set(spec.dtype, args.o.data, at(args.o.strides, query.b, query.t, query.n) + i, sum);
  }
  const std::int64_t stat = (query.b * spec.heads + query.n) * spec.q_tokens + query.t;
  if (args.lse) set(real(spec), args.lse, stat, stats.lse);
}

// Adds one query's share to dk and dv [kv_tokens, dim], writes its dq; returns its share of dsink.
double backward_query(const Query& query, const AttentionBackwardArgs& args, double* x, double* p,
                      double* dk, double* dv) {
  const AttentionSpec& spec = query.spec;
  const DType dtype = spec.dtype;
  const Softmax stats = softmax(query, args.q, args.k, args.sinks, args.sinks_dtype, x, p);
  const std::int64_t q_at = at(args.q.strides, query.b, query.t, query.n);
  const std::int64_t do_at = at(args.d_o.strides, query.b, query.t, query.n);
  const std::int64_t dq_at = at(args.dq.strides, query.b, query.t, query.n);
  // sum_s p_s dp_s: the softmax's row term. Equal to dot(o, d_o), but o may be rounded.
  double row_term = 0;
  for (std::int64_t s = 0; s < query.row.num_keys; ++s)
    if (p[s] != 0)
      row_term += p[s] * dot(dtype, args.d_o.data, do_at, args.v.data,
                             at(args.v.strides, query.b, s, query.kv_head()), spec.v_dim);
  double* dq = x + query.row.num_keys;  // the caller's x has room for it
  std::fill_n(dq, spec.qk_dim, 0.0);
  for (std::int64_t s = 0; s < query.row.num_keys; ++s) {
    if (p[s] == 0) continue;
    const std::int64_t k_at = at(args.k.strides, query.b, s, query.kv_head());
    const double dp = dot(dtype, args.d_o.data, do_at, args.v.data,
                          at(args.v.strides, query.b, s, query.kv_head()), spec.v_dim);
    double dx = p[s] * (dp - row_term) * spec.scale;
    if (spec.soft_cap != 0) dx *= 1 - (x[s] / spec.soft_cap) * (x[s] / spec.soft_cap);
    for (std::int64_t i = 0; i < spec.v_dim; ++i)
      dv[s * spec.v_dim + i] += p[s] * get(dtype, args.d_o.data, do_at + i);
    for (std::int64_t i = 0; i < spec.qk_dim; ++i) {
      dk[s * spec.qk_dim + i] += dx * get(dtype, args.q.data, q_at + i);
      dq[i] += dx * get(dtype, args.k.data, k_at + i);
    }
  }
  for (std::int64_t i = 0; i < spec.qk_dim; ++i) set(dtype, args.dq.data, dq_at + i, dq[i]);
  if (!args.sinks) return 0;
  return -std::exp(sink_of<double>(args.sinks, args.sinks_dtype, query.n) - stats.lse) * row_term;
}

// Doubles of scratch per thread: x and p (x has room for a dq), then dk and dv.
std::int64_t forward_doubles(const AttentionSpec& spec) { return 2 * spec.kv_tokens + spec.qk_dim; }
std::int64_t backward_doubles(const AttentionSpec& spec) {
  return forward_doubles(spec) + spec.kv_tokens * (spec.qk_dim + spec.v_dim);
}

}  // namespace

std::size_t attention_forward_workspace_bytes(const AttentionSpec& spec) {
  return static_cast<std::size_t>(num_threads() * forward_doubles(spec)) * sizeof(double);
}

std::size_t attention_backward_workspace_bytes(const AttentionSpec& spec) {
  return static_cast<std::size_t>(num_threads() * backward_doubles(spec) +
                                  spec.batch * spec.heads) *
         sizeof(double);
}

void attention_forward(const AttentionSpec& spec, const AttentionForwardArgs& args,
                       const AttentionCache* cache, std::byte* workspace) {
  parallel_tasks(spec.batch * spec.heads, [&](std::int64_t task, int thread) {
    double* x = reinterpret_cast<double*>(workspace) + thread * forward_doubles(spec);
    double* p = x + spec.kv_tokens + spec.qk_dim;
    const std::int64_t b = task / spec.heads, n = task % spec.heads;
    const RowMasks row = row_masks(spec, args.masks, cache, b);
    for (std::int64_t t = 0; t < spec.q_tokens; ++t)
      forward_query({spec, row, b, n, t}, args, x, p);
  });
}

void attention_backward(const AttentionSpec& spec, const AttentionBackwardArgs& args,
                        std::byte* workspace) {
  const std::int64_t group = spec.heads / spec.kv_heads;
  double* dsinks = reinterpret_cast<double*>(workspace) + num_threads() * backward_doubles(spec);
  parallel_tasks(spec.batch * spec.kv_heads, [&](std::int64_t task, int thread) {
    double* x = reinterpret_cast<double*>(workspace) + thread * backward_doubles(spec);
    double* p = x + spec.kv_tokens + spec.qk_dim;
    double* dk = p + spec.kv_tokens;
    double* dv = dk + spec.kv_tokens * spec.qk_dim;
    std::fill(dk, dv + spec.kv_tokens * spec.v_dim, 0.0);
    const std::int64_t b = task / spec.kv_heads, kv_head = task % spec.kv_heads;
    const RowMasks row = row_masks(spec, args.masks, nullptr, b);
    for (std::int64_t n = kv_head * group; n < (kv_head + 1) * group; ++n) {
      double& dsink = dsinks[b * spec.heads + n] = 0;
      for (std::int64_t t = 0; t < spec.q_tokens; ++t)
        dsink += backward_query({spec, row, b, n, t}, args, x, p, dk, dv);
    }
    for (std::int64_t s = 0; s < spec.kv_tokens; ++s) {
      for (std::int64_t i = 0; i < spec.qk_dim; ++i)
        set(spec.dtype, args.dk.data, at(args.dk.strides, b, s, kv_head) + i,
            dk[s * spec.qk_dim + i]);
      for (std::int64_t i = 0; i < spec.v_dim; ++i)
        set(spec.dtype, args.dv.data, at(args.dv.strides, b, s, kv_head) + i,
            dv[s * spec.v_dim + i]);
    }
  });
  if (!args.dsinks) return;
  for (std::int64_t n = 0; n < spec.heads; ++n) {
    double sum = 0;
    for (std::int64_t b = 0; b < spec.batch; ++b) sum += dsinks[b * spec.heads + n];
    set(real(spec), args.dsinks, n, sum);
  }
}

}  // namespace lamina::cpu::reference
