// Attention by its definition, in plain loops and double: slow, and the reference for kernels.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/mask.h"
#include "backends/cpu/threads/threads.h"
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

// One query of one head: its place and its probabilities.
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

std::int64_t distance(const Query& query, std::int64_t s) {
  return std::abs(std::int64_t{query.row.q_position(query.t)} - query.row.k_position(s));
}

// Returns the place of the bias of a distance in the table.
std::int64_t table_place(const Query& query, std::int64_t distance) {
  const std::int64_t num = query.spec.bias_distances;
  return query.n * num + std::min(distance, num - 1);
}

double bias_of(const Query& query, const AttentionBias& bias, std::int64_t s) {
  const std::int64_t d = distance(query, s);
  double sum = 0;
  if (bias.table) sum += number_of<double>(bias.table, bias.table_dtype, table_place(query, d));
  if (bias.slopes)
    sum -= number_of<double>(bias.slopes, bias.slopes_dtype, query.n) * static_cast<double>(d);
  return sum;
}

// Sets p[s] for every key (0 for forbidden ones), and x[s], the logit after the cap and without
// bias, for allowed keys.
template <class Args>
Softmax softmax(const Query& query, const Args& args, double* x, double* p) {
  const AttentionInput &q = args.q, &k = args.k;
  const AttentionSpec& spec = query.spec;
  Softmax result;
  for (std::int64_t s = 0; s < query.row.num_keys; ++s) {
    p[s] = 0;
    if (!allowed(spec, query.row, query.n, query.t, s)) continue;
    p[s] = 1;
    x[s] = spec.scale * dot(spec.dtype, q.data, at(q.strides, query.b, query.t, query.n), k.data,
                            at(k.strides, query.b, s, query.kv_head()), spec.qk_dim);
    if (spec.soft_cap != 0) x[s] = spec.soft_cap * std::tanh(x[s] / spec.soft_cap);
    result.max_logit = std::max(result.max_logit, x[s] + bias_of(query, args.bias, s));
  }
  double max = result.max_logit, sum = 0;
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const double sink = args.sinks ? number_of<double>(args.sinks, args.sinks_dtype, query.n) : kNone;
  if (sink != kNone) {
    max = std::max(max, sink);
    sum = std::exp(sink - max);
  }
  for (std::int64_t s = 0; s < query.row.num_keys; ++s)
    if (p[s] != 0) sum += p[s] = std::exp(x[s] + bias_of(query, args.bias, s) - max);
  if (sum == 0) return result;
  for (std::int64_t s = 0; s < query.row.num_keys; ++s) p[s] /= sum;
  result.lse = max + std::log(sum);
  return result;
}

void forward_query(const Query& query, const AttentionForwardArgs& args, double* x, double* p) {
  const AttentionSpec& spec = query.spec;
  const Softmax stats = softmax(query, args, x, p);
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

// Sums over queries: dk and dv [kv_tokens, dim], and the sums over all heads of a batch row.
struct Sums {
  double *dk, *dv, *dsinks, *dslopes, *dtable;
};

// Adds one query's share to the sums and writes its dq.
void backward_query(const Query& query, const AttentionBackwardArgs& args, double* x, double* p,
                    const Sums& sums) {
  const AttentionSpec& spec = query.spec;
  const DType dtype = spec.dtype;
  const Softmax stats = softmax(query, args, x, p);
  const std::int64_t q_at = at(args.q.strides, query.b, query.t, query.n);
  const std::int64_t do_at = at(args.d_o.strides, query.b, query.t, query.n);
  const std::int64_t dq_at = at(args.dq.strides, query.b, query.t, query.n);
  // The softmax's row term, sum_s p_s dp_s. Equal to dot(o, d_o), but o may be rounded.
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
    const double ds = p[s] * (dp - row_term);
    const std::int64_t d = distance(query, s);
    if (args.bias.slopes) sums.dslopes[query.n] -= ds * static_cast<double>(d);
    if (args.bias.table) sums.dtable[table_place(query, d)] += ds;
    double dx = ds * spec.scale;
    if (spec.soft_cap != 0) dx *= 1 - (x[s] / spec.soft_cap) * (x[s] / spec.soft_cap);
    for (std::int64_t i = 0; i < spec.v_dim; ++i)
      sums.dv[s * spec.v_dim + i] += p[s] * get(dtype, args.d_o.data, do_at + i);
    for (std::int64_t i = 0; i < spec.qk_dim; ++i) {
      sums.dk[s * spec.qk_dim + i] += dx * get(dtype, args.q.data, q_at + i);
      dq[i] += dx * get(dtype, args.k.data, k_at + i);
    }
  }
  for (std::int64_t i = 0; i < spec.qk_dim; ++i) set(dtype, args.dq.data, dq_at + i, dq[i]);
  if (args.sinks && row_term != 0)  // 0 for a row that sees no key, which may have no lse
    sums.dsinks[query.n] -=
        std::exp(number_of<double>(args.sinks, args.sinks_dtype, query.n) - stats.lse) * row_term;
}

// Number of doubles of scratch memory per thread: x and p (x has room for a dq), then dk and dv.
std::int64_t forward_doubles(const AttentionSpec& spec) { return 2 * spec.kv_tokens + spec.qk_dim; }
std::int64_t backward_doubles(const AttentionSpec& spec) {
  return forward_doubles(spec) + spec.kv_tokens * (spec.qk_dim + spec.v_dim);
}

// Number of doubles for the sums of a batch row: dsinks, dslopes and dtable.
std::int64_t row_doubles(const AttentionSpec& spec) {
  return spec.heads * (2 + spec.bias_distances);
}

}  // namespace

std::size_t attention_forward_workspace_bytes(const AttentionSpec& spec) {
  return static_cast<std::size_t>(num_threads() * forward_doubles(spec)) * sizeof(double);
}

std::size_t attention_backward_workspace_bytes(const AttentionSpec& spec) {
  return static_cast<std::size_t>(num_threads() * backward_doubles(spec) +
                                  spec.batch * row_doubles(spec)) *
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
  double* of_rows = reinterpret_cast<double*>(workspace) + num_threads() * backward_doubles(spec);
  std::fill_n(of_rows, spec.batch * row_doubles(spec), 0.0);
  parallel_tasks(spec.batch * spec.kv_heads, [&](std::int64_t task, int thread) {
    double* x = reinterpret_cast<double*>(workspace) + thread * backward_doubles(spec);
    double* p = x + spec.kv_tokens + spec.qk_dim;
    double* dk = p + spec.kv_tokens;
    double* dv = dk + spec.kv_tokens * spec.qk_dim;
    std::fill(dk, dv + spec.kv_tokens * spec.v_dim, 0.0);
    const std::int64_t b = task / spec.kv_heads, kv_head = task % spec.kv_heads;
    const RowMasks row = row_masks(spec, args.masks, nullptr, b);
    double* of_row = of_rows + b * row_doubles(spec);
    const Sums sums{dk, dv, of_row, of_row + spec.heads, of_row + 2 * spec.heads};
    for (std::int64_t n = kv_head * group; n < (kv_head + 1) * group; ++n)
      for (std::int64_t t = 0; t < spec.q_tokens; ++t)
        backward_query({spec, row, b, n, t}, args, x, p, sums);
    for (std::int64_t s = 0; s < spec.kv_tokens; ++s) {
      for (std::int64_t i = 0; i < spec.qk_dim; ++i)
        set(spec.dtype, args.dk.data, at(args.dk.strides, b, s, kv_head) + i,
            dk[s * spec.qk_dim + i]);
      for (std::int64_t i = 0; i < spec.v_dim; ++i)
        set(spec.dtype, args.dv.data, at(args.dv.strides, b, s, kv_head) + i,
            dv[s * spec.v_dim + i]);
    }
  });
  const auto add_rows = [&](void* out, std::int64_t first, std::int64_t count) {
    for (std::int64_t i = 0; out && i < count; ++i) {
      double sum = 0;
      for (std::int64_t b = 0; b < spec.batch; ++b)
        sum += of_rows[b * row_doubles(spec) + first + i];
      set(real(spec), out, i, sum);
    }
  };
  add_rows(args.dsinks, 0, spec.heads);
  add_rows(args.dslopes, spec.heads, spec.heads);
  add_rows(args.dtable, 2 * spec.heads, spec.heads * spec.bias_distances);
}

}  // namespace lamina::cpu::reference
