// The results of the backward pass: adds the sums of tasks in order and stores the gradients.
// Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/backward_memory.h"

namespace lamina::cpu {
namespace {

template <class V, class T, bool kPairs>
struct BackwardResults {
  using F = typename V::F;
  using Ops = Operands<V, T, kPairs>;
  using Memory = BackwardMemory<V, T, kPairs>;
  using Block = typename Memory::Block;
  using Scratch = typename Memory::Scratch;
  using Sums = typename Memory::Sums;
  using Run = BackwardRun;
  static constexpr int L = V::kLanes;

  static void store_dq(const Run& r, Scratch& s, std::int64_t b, std::int64_t kv_head,
                       Block& block) {
    const Sizes& sizes = r.plan.sizes;
    const F scale = V::set(static_cast<float>(r.spec.scale));
    for (std::int64_t i = 0; i < sizes.qk_width * kTile; i += L)
      V::store(block.dq_across + i, V::load(block.dq_across + i) * scale);
    Ops::transpose(reinterpret_cast<const Word*>(block.dq_across), kTile, sizes.qk_width,
                   block.side.cells * kCell, s.staging, sizes.qk_width);
    RowCursor row(sizes, block.first_row);
    for (std::int64_t i = 0; i < block.side.count; ++i, row.next()) {
      T* dq = static_cast<T*>(r.args.dq.data) + b * r.args.dq.strides.batch +
              row.t * r.args.dq.strides.token +
              (kv_head * sizes.group + row.g) * r.args.dq.strides.head;
      Ops::store_row(s.staging + i * sizes.qk_width, r.spec.qk_dim, dq);
    }
  }

  // Adds the splits' sums of keys [begin, end) in order and stores them as dk and dv.
  static void store_sums(const Run& r, const Sums& sums, std::int64_t head, std::int64_t begin,
                         std::int64_t end) {
    const AttentionSpec& spec = r.spec;
    const std::int64_t b = head / spec.kv_heads, kv_head = head % spec.kv_heads;
    const Sizes& sizes = r.plan.sizes;
    store_gradient(r.args.dk, sums.dk, r.plan.splits, spec.kv_tokens, sizes.qk_width, spec.qk_dim,
                   static_cast<float>(spec.scale), b, kv_head, begin, end);
    store_gradient(r.args.dv, sums.dv, r.plan.splits, spec.kv_tokens, sizes.v_width, spec.v_dim, 1,
                   b, kv_head, begin, end);
  }

  static void store_gradient(const AttentionOutput& out, float* sums, std::int64_t splits,
                             std::int64_t tokens, std::int64_t width, std::int64_t dim,
                             float factor, std::int64_t b, std::int64_t kv_head, std::int64_t begin,
                             std::int64_t end) {
    T* to = static_cast<T*>(out.data) + b * out.strides.batch + kv_head * out.strides.head;
    for (std::int64_t key = begin; key < end; ++key) {
      float* row = sums + key * width;
      for (std::int64_t i = 0; i < width; i += L) {
        F sum = V::load(row + i);
        for (std::int64_t split = 1; split < splits; ++split)
          sum += V::load(row + split * tokens * width + i);
        V::store(row + i, sum * V::set(factor));
      }
      Ops::store_row(reinterpret_cast<const Word*>(row), dim, to + key * out.strides.token);
    }
  }

  // Adds the `width` sums per head of all tasks.
  static void store_head_sums(const Run& r, const float* partial, std::int64_t width, void* out) {
    const std::int64_t group = r.plan.sizes.group, splits = r.plan.splits;
    for (std::int64_t n = 0; n < r.spec.heads; ++n)
      for (std::int64_t i = 0; i < width; ++i) {
        double sum = 0;
        for (std::int64_t b = 0; b < r.spec.batch; ++b)
          for (std::int64_t split = 0; split < splits; ++split) {
            const std::int64_t task = (b * r.spec.kv_heads + n / group) * splits + split;
            sum += partial[(task * group + n % group) * width + i];
          }
        static_cast<float*>(out)[n * width + i] = static_cast<float>(sum);
      }
  }
};

}  // namespace
}  // namespace lamina::cpu
