// attention by warpgroups, for bf16 and heads of kWidth numbers on compute capability 9.0
// (gpu/warpgroup.h). Device code.
//
// A block of two warpgroups has 128 rows, 64 each, and walks over tiles of kKeys keys. Keys and
// values have two places each. While a tile of keys is multiplied, its values are copied, and then
// the next keys. The products of values run on until the next keys are multiplied. Probabilities
// stay in registers.
//
// Bound by operations of the tensor cores.
#pragma once

#include "backends/cuda/attention/rows.h"
#include "backends/cuda/gpu/warpgroup.h"

namespace lamina::cuda {

template <int kWidth, int kKeys>
using WarpgroupAttentionRows = AttentionRows<gpu::bfloat16, kWarpgroupRows / 16, 1, kKeys, kWidth,
                                             gpu::Accumulator<kKeys>, gpu::Accumulator<kWidth>>;

template <int kWidth, int kKeys>
class AttentionWarpgroups : WarpgroupAttentionRows<kWidth, kKeys> {
  using T = gpu::bfloat16;
  using Rows = WarpgroupAttentionRows<kWidth, kKeys>;
  using Rows::kRows;
  using Rows::p_;
  using Rows::place_;
  using Rows::row_;
  using Rows::s_;
  using Rows::y_;
  static constexpr int kTile = kKeys * kWidth;
  static_assert((kRows * kWidth + 4 * kTile) * 2 == kWarpgroupTileBytes<kWidth>);
  static_assert(Rows::kThreads == kWarpgroupThreads);

 public:
  LAMINA_GPU_FUNCTION AttentionWarpgroups(const AttentionParams& params, const BlockPlace& place)
      : Rows(params, place), keys_of_(key_rows(params, place)), q_(gpu::swizzled_shared()) {}

  LAMINA_GPU_FUNCTION void run() {
    this->clear();
    walk_keys();
    this->finish();
  }

 private:
  // `place`: 0 or 1.
  LAMINA_GPU_FUNCTION gpu::Shared<T> keys_at(int place) const {
    return q_ + (kRows * kWidth + place * kTile);
  }
  LAMINA_GPU_FUNCTION gpu::Shared<T> values_at(int place) const { return keys_at(2 + place); }

  LAMINA_GPU_FUNCTION void walk_keys() {
    const int from_key = place_.split * p_.keys_per_split;
    const int to_key = p_.splits > 1 ? from_key + p_.keys_per_split : p_.size.kv_tokens;
    const Walk<false> walk = key_walk(p_.seen, p_.size, row_, place_.kv_head, place_.tile, to_key);
    int tile = walk.next(gpu::max(walk.first, from_key / kKeys));
    if (tile >= walk.end) return;
    this->note_queries();
    copy_queries();
    copy_keys(tile, keys_at(0));
    gpu::commit_copies();
    for (int place = 0; tile < walk.end; place ^= 1) {
      const int next = walk.next(tile + 1);
      const bool whole = walk.whole(tile);
      if (!whole) this->note_keys(tile);
      finish_copies<0>();
      copy_values(tile, values_at(place));
      gpu::commit_copies();
      multiply_keys(keys_at(place));
      gpu::wait_products<0>(s_, y_, probabilities_);
      if (next < walk.end) copy_keys(next, keys_at(place ^ 1));
      gpu::commit_copies();
      this->scale_logits(tile, whole);
      this->update_softmax();
      finish_copies<1>();
      multiply_values(values_at(place));
      tile = next;
    }
    gpu::wait_copies<0>();
    gpu::wait_products<0>(y_, probabilities_);
  }

  // Waits until at most N groups of copies are under way, and makes the others visible to products.
  template <int N>
  LAMINA_GPU_FUNCTION void finish_copies() {
    gpu::wait_copies<N>();
    gpu::fence_async();
    gpu::sync();
  }

  // Copies `count` rows of kWidth numbers, and zeros up to kCount rows. The tile has columns
  // [0, 64) of all rows, then the next ones. offset(i) is the place of row i, or negative for
  // zeros.
  template <int kCount, typename Offset>
  LAMINA_GPU_FUNCTION void copy(gpu::Address at, int count, const gpu::Shared<T>& to,
                                Offset offset) {
    constexpr int kUnit = 8, kUnits = kWidth / kUnit, kStep = Rows::kThreads / kUnits;
    const gpu::Global<const T> from(at);
    const int unit = gpu::thread_index() % kUnits, column = unit * kUnit;
    for (int row = gpu::thread_index() / kUnits; row < kCount; row += kStep) {
      const gpu::Shared<T> place =
          to + (unit / 8 * kCount * gpu::kSwizzledRow + gpu::swizzled(row, unit % 8));
      const std::int64_t of_row = row < count ? offset(row) : -1;
      if (of_row < 0) {
        gpu::store_vector(place, 0, gpu::Vector<T, kUnit>{});
      } else if (p_.vectors != 0) {
        gpu::copy_async<16>(place, from + (of_row + column));
      } else {
        const gpu::Global<const T> numbers = from + (of_row + column);
        gpu::Vector<T, kUnit> copied;
        LAMINA_GPU_UNROLL
        for (int i = 0; i < kUnit; ++i) copied.values[i] = numbers[i];
        gpu::store_vector(place, 0, copied);
      }
    }
  }
  LAMINA_GPU_FUNCTION void copy_queries() {
    const int first = place_.tile * kRows;
    copy<kRows>(p_.q, p_.size.rows - first, q_, [&](int i) {
      return query_offset(p_.size, place_.b, place_.kv_head, first + i, kWidth);
    });
  }
  LAMINA_GPU_FUNCTION void copy_keys(int tile, const gpu::Shared<T>& to) {
    const int first = tile * kKeys;
    copy<kKeys>(p_.k, row_.num_keys - first, to,
                [&](int i) { return keys_of_.offset(first + i, kWidth); });
  }
  LAMINA_GPU_FUNCTION void copy_values(int tile, const gpu::Shared<T>& to) {
    const int first = tile * kKeys;
    copy<kKeys>(p_.v, row_.num_keys - first, to,
                [&](int i) { return keys_of_.value_offset(p_.seen, row_, first + i, kWidth); });
  }

  LAMINA_GPU_FUNCTION void multiply_keys(const gpu::Shared<T>& keys) {
    const gpu::Shared<T> rows =
        q_ + gpu::thread_index() / gpu::kWarpgroupSize * 64 * gpu::kSwizzledRow;
    s_.clear();
    gpu::fence_products(s_);
    LAMINA_GPU_UNROLL
    for (int step = 0; step < kWidth / 16; ++step) {
      const int columns = step / 4 * gpu::kSwizzledRow;
      gpu::warpgroup_multiply(s_, gpu::describe_matrix<true>(rows + kRows * columns) + step % 4,
                              gpu::describe_matrix<true>(keys + kKeys * columns) + step % 4);
    }
    gpu::commit_products();
  }

  LAMINA_GPU_FUNCTION void multiply_values(const gpu::Shared<T>& values) {
    LAMINA_GPU_UNROLL
    for (int step = 0; step < kKeys / 16; ++step)
      operand_of<T>(probabilities_[step].registers(), s_, step);
    gpu::fence_products(y_, probabilities_);
    const auto of_values = gpu::describe_matrix<false>(values, kKeys * gpu::kSwizzledRow * 2);
    LAMINA_GPU_UNROLL
    for (int step = 0; step < kKeys / 16; ++step)
      gpu::warpgroup_multiply(y_, probabilities_[step], of_values + step);
    gpu::commit_products();
  }

  const KeyRows keys_of_;
  const gpu::Shared<T> q_;
  gpu::RowFragment probabilities_[kKeys / 16];
};

template <int kWidth>
LAMINA_GPU_FUNCTION void attention_wgmma(const AttentionParams& p) {
  const BlockPlace place = block_place(p.size, p.size.row_tiles, p.splits);
  AttentionWarpgroups<kWidth, kWarpgroupKeys>(p, place).run();
}

}  // namespace lamina::cuda
