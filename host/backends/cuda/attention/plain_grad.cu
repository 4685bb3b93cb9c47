// The gradients of attention without tensor cores, in the form of grad.h. Also the gradients of
// biases for all types, in a pass over the rows that runs only if they are wanted. Bound by
// operations, as plain_forward.cu.
#include "backends/cuda/attention/grad_pairs.h"
#include "backends/cuda/attention/plain.h"

namespace lamina::cuda {
namespace {

// The sums that a block computes.
enum class Wanted { rows, keys, bias };

template <typename T, int kTile, Wanted kWanted>
class PlainGrad {
 public:
  using W = gpu::Wide<T>;
  static constexpr bool kOfKeys = kWanted == Wanted::keys, kOfBias = kWanted == Wanted::bias;

  LAMINA_GPU_FUNCTION PlainGrad(const AttentionGradParams& params, const BlockPlace& place)
      : p_(params), place_(place), pairs_(params, place) {
    PlainMemory<W> memory;
    own_1_ = memory.take(kTile, p_.key_stride);
    own_2_ = memory.take(kTile, p_.value_stride);
    other_1_ = memory.take(kTile, p_.key_stride);
    other_2_ = memory.take(kTile, p_.value_stride);
    probabilities_ = memory.take(kTile, kTile + 4);
    dproducts_ = memory.take(kTile, kTile + 4);
    if (kOfBias) return;
    sums_1_ = memory.take(kTile, p_.key_stride);
    if (kOfKeys) sums_2_ = memory.take(kTile, p_.value_stride);
  }

  LAMINA_GPU_FUNCTION void run() {
    load(kOfKeys, pairs_.own() * kTile, own_1_, own_2_);
    if (!kOfBias) clear_plain_rows(sums_1_, kTile, p_.size.width);
    if (kOfKeys) clear_plain_rows(sums_2_, kTile, p_.size.value_width);
    if (kOfBias) clear_bias();
    pairs_.note_own();
    const Walk<kOfKeys> walk = pairs_.walk();
    for (int tile = walk.next(walk.first); tile < walk.end; tile = walk.next(tile + 1)) {
      gpu::sync();
      load(!kOfKeys, tile * kTile, other_1_, other_2_);
      pairs_.note_other(tile, false);
      gpu::sync();
      compute_pairs(tile);
      gpu::sync();
      if constexpr (kOfBias) {
        add_bias(tile);
      } else {
        const auto one = [](int) { return W{1}; };
        plain_sums<kTile>(sums_1_, dproducts_, other_1_, p_.size.width, one);
        if (kOfKeys) plain_sums<kTile>(sums_2_, probabilities_, other_2_, p_.size.value_width, one);
      }
    }
    gpu::sync();
    if constexpr (kOfKeys) {
      store(gpu::Global<T>(p_.dk), p_.size.width, sums_1_);
      store(gpu::Global<T>(p_.dv), p_.size.value_width, sums_2_);
    } else if constexpr (!kOfBias) {
      store(gpu::Global<T>(p_.dq), p_.size.width, sums_1_);
    }
  }

 private:
  // Loads rows of k and v, or of q and dy.
  LAMINA_GPU_FUNCTION void load(bool keys, int first, const Tile<W>& to_1, const Tile<W>& to_2) {
    const int count = gpu::min(kTile, (keys ? p_.size.kv_tokens : p_.size.rows) - first);
    const int width = p_.size.width, value_width = p_.size.value_width;
    load_plain_rows(to_1, kTile, count, width, gpu::Global<const T>(keys ? p_.k : p_.q),
                    [&](int i) { return pairs_.offset(keys, first + i, width); });
    load_plain_rows(to_2, kTile, count, value_width, gpu::Global<const T>(keys ? p_.v : p_.dy),
                    [&](int i) { return pairs_.offset(keys, first + i, value_width); });
  }

  LAMINA_GPU_FUNCTION void compute_pairs(int tile) {
    plain_products<kTile>(probabilities_, own_1_, other_1_, p_.size.width,
                          [](int, int, W product) { return product; });
    // The same thread has the same pair.
    plain_products<kTile>(
        dproducts_, own_2_, other_2_, p_.size.value_width, [&](int i, int j, W dprobability) {
          const int at = i * probabilities_.stride + j;
          const PairGradient<W> g =
              pairs_.at(tile, false, false, i, j, probabilities_.data[at], dprobability);
          probabilities_.data[at] = g.probability;
          return kOfBias ? g.dlogit : g.dproduct;
        });
  }

  LAMINA_GPU_FUNCTION void store(const gpu::Global<T>& to, int width, const Tile<W>& sums) {
    if (!to) return;
    const int first = pairs_.own() * kTile;
    const int count = gpu::min(kTile, (kOfKeys ? p_.size.kv_tokens : p_.size.rows) - first);
    for (int i = gpu::warp_index(); i < count; i += gpu::num_warps())
      for (int h = gpu::lane(); h < width; h += gpu::kWarpSize)
        gpu::store(to, pairs_.offset(kOfKeys, first + i, width) + h,
                   W(sums.data[i * sums.stride + h]));
  }

  // Gradients of biases: one thread adds up a row, and one thread the entry of the table for
  // a head and distance, so that every sum has a fixed order.
  LAMINA_GPU_FUNCTION gpu::Global<W> slopes() const {
    return gpu::Global<W>(p_.partial_slopes) +
           (std::int64_t{place_.b} * p_.size.kv_heads + place_.kv_head) * p_.size.rows;
  }
  LAMINA_GPU_FUNCTION gpu::Global<W> table() const {
    const std::int64_t tile =
        (std::int64_t{place_.b} * p_.size.kv_heads + place_.kv_head) * p_.size.row_tiles +
        place_.tile;
    return gpu::Global<W>(p_.partial_bias) + tile * p_.size.group * p_.logits.distances;
  }
  LAMINA_GPU_FUNCTION void clear_bias() {
    const int first = place_.tile * kTile;
    if (p_.partial_slopes.value != 0)
      for (int i = gpu::thread_index(); i < kTile && first + i < p_.size.rows; i += kPlainThreads)
        slopes()[first + i] = 0;
    if (p_.partial_bias.value != 0)
      for (int i = gpu::thread_index(); i < p_.size.group * p_.logits.distances; i += kPlainThreads)
        table()[i] = 0;
  }
  LAMINA_GPU_FUNCTION void add_bias(int) {
    const int first = place_.tile * kTile, count = gpu::min(kTile, p_.size.rows - first);
    if (p_.partial_slopes.value != 0)
      for (int i = gpu::thread_index(); i < count; i += kPlainThreads) {
        W sum = 0;
        for (int j = 0; j < kTile; ++j)
          sum -= dproducts_.data[i * dproducts_.stride + j] * static_cast<W>(distance(i, j));
        slopes()[first + i] += sum;
      }
    if (p_.partial_bias.value != 0) add_to_table(first, count);
  }
  LAMINA_GPU_FUNCTION int distance(int i, int j) const {
    const QueryRow q = pairs_.queries()[i];
    return distance_of(q.place, pairs_.keys()[j]);
  }
  LAMINA_GPU_FUNCTION int entry(int i, int j) const {
    return gpu::min(distance(i, j), p_.logits.distances - 1);
  }

  LAMINA_GPU_FUNCTION void add_to_table(int first, int count) {
    LAMINA_GPU_SHARED(std::int32_t, range, 2);
    if (gpu::thread_index() == 0) range[0] = range[1] = -p_.logits.distances;
    gpu::sync();
    int low = p_.logits.distances, high = 0;
    for (int at = gpu::thread_index(); at < count * kTile; at += kPlainThreads) {
      if (W(probabilities_.data[at / kTile * probabilities_.stride + at % kTile]) == 0) continue;
      const int e = entry(at / kTile, at % kTile);
      low = gpu::min(low, e);
      high = gpu::max(high, e);
    }
    gpu::atomic_max(range, 0, -low);
    gpu::atomic_max(range, 1, high);
    gpu::sync();
    low = -int(range[0]);
    const int entries = int(range[1]) - low + 1;
    for (int item = gpu::thread_index(); item < p_.size.group * entries; item += kPlainThreads) {
      const int g = item / entries, e = low + item % entries;
      const int skipped = first % p_.size.group;
      W sum = 0;
      for (int i = (g + p_.size.group - skipped) % p_.size.group; i < count; i += p_.size.group)
        for (int j = 0; j < kTile; ++j)
          if (entry(i, j) == e) sum += dproducts_.data[i * dproducts_.stride + j];
      table()[std::int64_t{g} * p_.logits.distances + e] += sum;
    }
  }

  const AttentionGradParams& p_;
  const BlockPlace place_;
  const GradPairs<kOfKeys, kTile, kTile, W> pairs_;
  Tile<W> own_1_, own_2_, other_1_, other_2_, probabilities_, dproducts_, sums_1_, sums_2_;
};

template <typename T, int kTile, Wanted kWanted>
LAMINA_GPU_FUNCTION void plain_grad(const AttentionGradParams& p) {
  const int tiles = kWanted == Wanted::keys ? p.size.key_tiles : p.size.row_tiles;
  PlainGrad<T, kTile, kWanted>(p, block_place(p.size, tiles, 1)).run();
}

}  // namespace

#define LAMINA_PLAIN_GRAD(part, type, T, tile)                                                     \
  LAMINA_GPU_KERNEL_BOUNDS(attention_grad_##part##_plain##tile##_##type, AttentionGradParams, 256, \
                           1) {                                                                    \
    plain_grad<T, tile, Wanted::part>(p);                                                          \
  }
#define LAMINA_PLAIN_GRADS(type, T, tile) \
  LAMINA_PLAIN_GRAD(rows, type, T, tile)  \
  LAMINA_PLAIN_GRAD(keys, type, T, tile)  \
  LAMINA_PLAIN_GRAD(bias, type, T, tile)
LAMINA_PLAIN_GRADS(f32, float, 32)
LAMINA_PLAIN_GRADS(f32, float, 8)
LAMINA_PLAIN_GRADS(f16, gpu::float16, 8)
LAMINA_PLAIN_GRADS(f64, double, 8)
LAMINA_PLAIN_GRADS(bf16, gpu::bfloat16, 8)
#undef LAMINA_PLAIN_GRADS
#undef LAMINA_PLAIN_GRAD

}  // namespace lamina::cuda
