#include "backends/cuda/dnn/attention.h"

#include <limits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/round_up.h"

namespace lamina::cuda::dnn {
namespace {

constexpr DnnType kF32 = DnnType::f32, kI32 = DnnType::i32, kBool = DnnType::boolean;
using Mode = PointwiseMode;

DnnType data_type(DType dtype) {
  LAMINA_ASSERT(dtype == DType::bf16 || dtype == DType::f16);
  return dtype == DType::bf16 ? DnnType::bf16 : DnnType::f16;
}

// cuDNN's order of dims is batch, heads, tokens, width; ours in memory is batch, tokens, heads,
// width.
struct Layout {
  std::int64_t batch, tokens, heads, width;
  Dims dims() const { return {batch, heads, tokens, width}; }
  Dims strides() const { return {tokens * heads * width, width, heads * width, 1}; }
};

template <typename T>
T swapped(T dims) {
  std::swap(dims[2], dims[3]);
  return dims;
}

// Builds one graph.
class AttentionGraph {
 public:
  AttentionGraph(DnnLibrary& library, const DnnAttentionSpec& spec)
      : g_(library), s_(spec), type_(data_type(spec.dtype)) {}

  Planned make() {
    s_.backward ? backward() : forward();
    PlanResult result = g_.plan();
    if (!result.plan) return {.plan = nullptr, .why_not = std::move(result.why_not)};
    return {.plan = std::make_shared<AttentionPlan>(ids_, std::move(result.plan), dots_bytes()),
            .why_not = {}};
  }

 private:
  Layout queries(std::int64_t width) const { return {s_.batch, s_.q_tokens, s_.heads, width}; }
  Layout keys(std::int64_t width) const { return {s_.batch, s_.kv_tokens, s_.kv_heads, width}; }
  Dims pairs() const { return {s_.batch, s_.heads, s_.q_tokens, s_.kv_tokens}; }
  Dims rows() const { return {s_.batch, s_.heads, s_.q_tokens, 1}; }

  GraphTensor in_memory(DnnType type, const Dims& dims, const Dims& strides, std::int64_t* id) {
    const GraphTensor t = g_.tensor(type, dims, strides);
    *id = t.id;
    return t;
  }
  GraphTensor in_memory(const Layout& layout, std::int64_t* id) {
    return in_memory(type_, layout.dims(), layout.strides(), id);
  }
  // Rows of keys or values as columns.
  GraphTensor transposed(const Layout& layout, std::int64_t* id) {
    return in_memory(type_, swapped(layout.dims()), swapped(layout.strides()), id);
  }

  void add_mask_operands() {
    if (s_.over_state) {
      const Dims dims = {s_.batch, 1, 1, 1}, strides = {1, 1, 1, 1};
      q_lengths_ = in_memory(kI32, dims, strides, &ids_.q_lengths);
      kv_lengths_ = in_memory(kI32, dims, strides, &ids_.kv_lengths);
    }
    if (s_.segments) {
      const std::int64_t t = s_.q_tokens;
      q_segments_ = in_memory(kI32, {s_.batch, 1, t, 1}, {t, t, 1, 1}, &ids_.q_segments);
      k_segments_ = in_memory(kI32, {s_.batch, 1, 1, t}, {t, t, t, 1}, &ids_.k_segments);
    }
  }

  // The logits of pairs outside of `seen` become -infinity.
  GraphTensor keep(const GraphTensor& x, const GraphTensor& seen) {
    return g_.select(x, g_.scalar(-std::numeric_limits<float>::infinity()), seen);
  }

  GraphTensor scaled_logits(const GraphTensor& q, const GraphTensor& k) {
    const GraphTensor logits = g_.intermediate(kF32, pairs());
    g_.matmul(q, k, logits, {.m = q_lengths_, .n = kv_lengths_, .pad = s_.over_state});
    return g_.pointwise(Mode::mul, logits, g_.scalar(static_cast<float>(s_.scale)));
  }

  // Engines compare tensors of all pairs only: the rows are added to both sides.
  GraphTensor within_segments(const GraphTensor& x) {
    const GraphTensor row = g_.index(x, 2);
    const GraphTensor q = g_.pointwise(Mode::add, row, q_segments_, kI32, kI32);
    const GraphTensor k = g_.pointwise(Mode::add, row, k_segments_, kI32, kI32);
    return keep(x, g_.pointwise(Mode::cmp_eq, q, k, kBool, kBool));
  }
  GraphTensor within_lengths(const GraphTensor& x) {
    const GraphTensor row = g_.pointwise(Mode::cmp_lt, g_.index(x, 2), q_lengths_, kBool, kBool);
    const GraphTensor column =
        g_.pointwise(Mode::cmp_lt, g_.index(x, 3), kv_lengths_, kBool, kBool);
    return keep(x, g_.pointwise(Mode::logical_and, row, column, kBool, kBool));
  }
  // row (+ kv - q) >= column
  GraphTensor up_to_diagonal(const GraphTensor& x) {
    GraphTensor row = g_.index(x, 2);
    const GraphTensor column = g_.index(x, 3);
    if (s_.over_state) {
      row = g_.pointwise(Mode::add, row, kv_lengths_, kI32, kI32);
      row = g_.pointwise(Mode::sub, row, q_lengths_, kI32, kI32);
    }
    return keep(x, g_.pointwise(Mode::cmp_ge, row, column, kBool, kBool));
  }
  // column + window (- kv + q) > row
  GraphTensor in_window(const GraphTensor& x) {
    const GraphTensor row = g_.index(x, 2);
    GraphTensor column = g_.index(x, 3);
    if (s_.over_state) {
      column = g_.pointwise(Mode::add, column, g_.scalar(static_cast<std::int32_t>(s_.window)),
                            kI32, kI32);
      column = g_.pointwise(Mode::sub, column, kv_lengths_, kI32, kI32);
      column = g_.pointwise(Mode::add, column, q_lengths_, kI32, kI32);
    } else {
      column = g_.pointwise(Mode::add, column, g_.scalar(static_cast<float>(s_.window)));
    }
    return keep(x, g_.pointwise(Mode::cmp_gt, column, row, kBool, kBool));
  }
  GraphTensor masked(GraphTensor x) {
    if (s_.segments) x = within_segments(x);
    if (s_.over_state) x = within_lengths(x);
    if (s_.causal || s_.window > 0) x = up_to_diagonal(x);
    if (s_.window > 0) x = in_window(x);
    return x;
  }

  // Softmax (Milakov & Gimelshein 2018) as the composition that cuDNN recognises; also writes lse.
  // A sink is one more logit of each row.
  GraphTensor softmax(const GraphTensor& x, const GraphTensor& lse) {
    GraphTensor top = g_.intermediate(kF32, rows());
    g_.reduce(ReductionOperator::max, x, top);
    if (sinks_) top = g_.pointwise(Mode::max, top, sinks_);
    const GraphTensor e = g_.pointwise(Mode::exp, g_.pointwise(Mode::sub, x, top));
    GraphTensor sum = g_.intermediate(kF32, rows());
    g_.reduce(ReductionOperator::add, e, sum);
    if (sinks_)
      sum = g_.pointwise(Mode::add, sum,
                         g_.pointwise(Mode::exp, g_.pointwise(Mode::sub, sinks_, top)));
    g_.pointwise_into(lse, Mode::add, top, g_.pointwise(Mode::log, sum));
    return g_.pointwise(Mode::div, e, sum, type_);
  }

  void forward() {
    const GraphTensor q = in_memory(queries(s_.width), &ids_.q);
    const GraphTensor k = transposed(keys(s_.width), &ids_.k);
    const GraphTensor v = in_memory(keys(s_.value_width), &ids_.v);
    const GraphTensor y = in_memory(queries(s_.value_width), &ids_.y);
    const GraphTensor lse = in_memory(kF32, rows(), dense(rows()), &ids_.lse);
    add_mask_operands();
    if (s_.sinks) sinks_ = in_memory(kF32, {1, s_.heads, 1, 1}, {s_.heads, 1, 1, 1}, &ids_.sinks);
    const GraphTensor p = softmax(masked(scaled_logits(q, k)), lse);
    g_.matmul(p, v, y, {.m = q_lengths_, .k = kv_lengths_});
  }

  // y . dy of each row, in memory.
  GraphTensor dots_of(const GraphTensor& y, const GraphTensor& dy) {
    const GraphTensor sum = g_.intermediate(kF32, rows());
    const Dims dims = queries(s_.value_width).dims();
    const GraphTensor product = g_.intermediate(kF32, dims);
    g_.pointwise_into(product, Mode::mul, dy, y);
    g_.reduce(ReductionOperator::add, product, sum);
    const GraphTensor dots = in_memory(kF32, rows(), dense(rows()), &ids_.dots);
    g_.pointwise_into(dots, Mode::mul, sum, g_.scalar(1.0f));
    return dots;
  }

  // The last two dims exchanged.
  GraphTensor view_across(const GraphTensor& x) {
    return g_.reshape(x, swapped(x.dims), swapped(x.strides), type_);
  }

  // gradient[B, K, S, W] = sum over the heads of a key head of pairs^T x.
  void by_keys(const GraphTensor& pairs, const GraphTensor& x, std::int64_t width,
               std::int64_t* id) {
    const GraphTensor across = view_across(pairs);
    const GraphTensor out = in_memory(keys(width), id);
    if (s_.heads == s_.kv_heads) return g_.matmul(across, x, out, {});
    const GraphTensor each = g_.intermediate(type_, {s_.batch, s_.heads, s_.kv_tokens, width});
    g_.matmul(across, x, each, {});
    g_.reduce(ReductionOperator::add, each, out);
  }

  // Dao 2023, algorithm 2.
  void backward() {
    const GraphTensor q = in_memory(queries(s_.width), &ids_.q);
    const GraphTensor k = transposed(keys(s_.width), &ids_.k);
    const GraphTensor v = transposed(keys(s_.value_width), &ids_.v);
    const GraphTensor y = in_memory(queries(s_.value_width), &ids_.y);
    const GraphTensor dy = in_memory(queries(s_.value_width), &ids_.dy);
    const GraphTensor lse = in_memory(kF32, rows(), dense(rows()), &ids_.lse);
    add_mask_operands();
    const GraphTensor dots = dots_of(y, dy);

    // The mask comes last: rows that see nothing have the lse -infinity.
    const GraphTensor p =
        g_.pointwise(Mode::exp, masked(g_.pointwise(Mode::sub, scaled_logits(q, k), lse)));
    by_keys(p, dy, s_.value_width, &ids_.dv);

    const GraphTensor dp = g_.intermediate(kF32, pairs());
    g_.matmul(dy, v, dp, {});
    const GraphTensor ds = g_.pointwise(Mode::mul, g_.pointwise(Mode::sub, dp, dots), p);
    const GraphTensor scaled = g_.pointwise(Mode::mul, ds, g_.scalar(static_cast<float>(s_.scale)));
    by_keys(scaled, q, s_.width, &ids_.dk);

    const GraphTensor rows_of_k = view_across(k);
    const GraphTensor dq = in_memory(queries(s_.width), &ids_.dq);
    g_.matmul(scaled, rows_of_k, dq, {});
  }

  std::size_t dots_bytes() const {
    if (!s_.backward) return 0;
    return static_cast<std::size_t>(
        round_up(s_.batch * s_.heads * s_.q_tokens * 4, std::int64_t{256}));
  }

  DnnGraphBuilder g_;
  const DnnAttentionSpec& s_;
  const DnnType type_;
  AttentionPlan::Ids ids_;
  GraphTensor q_lengths_, kv_lengths_, q_segments_, k_segments_, sinks_;
};

}  // namespace

std::int64_t logit_gradient_bytes(const DnnAttentionSpec& spec) {
  return spec.batch * spec.heads * round_up(spec.q_tokens, std::int64_t{64}) *
         round_up(spec.kv_tokens, std::int64_t{128}) * size_bytes(spec.dtype);
}

void AttentionPlan::run(DnnLibrary& library, DnnStream stream, const AttentionOperands& o) const {
  const std::pair<std::int64_t, Address> all[] = {
      {ids_.q, o.q},
      {ids_.k, o.k},
      {ids_.v, o.v},
      {ids_.y, o.y},
      {ids_.lse, o.lse},
      {ids_.q_segments, o.q_segments},
      {ids_.k_segments, o.k_segments},
      {ids_.q_lengths, o.q_lengths},
      {ids_.kv_lengths, o.kv_lengths},
      {ids_.sinks, o.sinks},
      {ids_.dy, o.dy},
      {ids_.dq, o.dq},
      {ids_.dk, o.dk},
      {ids_.dv, o.dv},
      {ids_.dots, o.workspace},
  };
  std::vector<std::int64_t> ids;
  std::vector<void*> pointers;
  for (const auto& [id, address] : all) {
    if (id == 0) continue;
    ids.push_back(id);
    pointers.push_back(reinterpret_cast<void*>(address));
  }
  plan_->run(library, stream, std::move(ids), std::move(pointers),
             reinterpret_cast<void*>(o.workspace + dots_bytes_));
}

Planned make_attention_plan(DnnLibrary& library, const DnnAttentionSpec& spec) {
  return AttentionGraph(library, spec).make();
}

}  // namespace lamina::cuda::dnn
