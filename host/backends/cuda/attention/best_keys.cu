// Finds the keys with the best scores: top_k_mask, and the slots that tokens of compressed
// attention see. Bound by memory: a row of scores is read once per digit, out of the caches from
// the second time on, and nothing is sorted.
#include "backends/cuda/attention/walk.h"
#include "backends/cuda/gpu/ordered_keys.h"

namespace lamina::cuda {
namespace {

inline constexpr int kThreads = 256, kDigits = 256;

// A row's candidates: keys s in [0, count) with seen(s).
struct Threshold {
  std::uint32_t rank;  // of the k-th best
  int equal;           // number of keys of this rank to keep, the first ones
};

// Counts of one value per thread, in the order of threads.
LAMINA_GPU_FUNCTION int count_before(bool mine, gpu::Shared<std::int32_t> warps, int& total) {
  const std::uint32_t votes = gpu::ballot(mine);
  if (gpu::lane() == 0) warps[gpu::warp_index()] = count_bits(votes);
  gpu::sync();
  int before = count_bits(votes & ((1u << gpu::lane()) - 1));
  total = 0;
  for (int w = 0; w < kThreads / gpu::kWarpSize; ++w) {
    const int n = warps[w];
    if (w < gpu::warp_index()) before += n;
    total += n;
  }
  gpu::sync();
  return before;
}

// The rank of the k-th best of more than k candidates, digit by digit.
template <typename Seen>
LAMINA_GPU_FUNCTION Threshold find_threshold(const gpu::Global<const float>& scores, int count,
                                             int k, Seen seen) {
  LAMINA_GPU_SHARED(std::int32_t, digits, kDigits);
  LAMINA_GPU_SHARED(std::int32_t, found, 2);
  std::uint32_t prefix = 0, mask = 0;
  int wanted = k;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = gpu::thread_index(); i < kDigits; i += kThreads) digits[i] = 0;
    gpu::sync();
    for (int s = gpu::thread_index(); s < count; s += kThreads) {
      if (!seen(s)) continue;
      const std::uint32_t rank = gpu::ordered(gpu::load(scores, s));
      if ((rank & mask) == prefix)
        gpu::atomic_add(digits, static_cast<int>(rank >> shift & 255), 1);
    }
    gpu::sync();
    if (gpu::thread_index() == 0) {
      int digit = kDigits - 1, left = wanted;
      while (digit > 0 && int(digits[digit]) < left) left -= int(digits[digit--]);
      found[0] = digit;
      found[1] = left;
    }
    gpu::sync();
    prefix |= static_cast<std::uint32_t>(int(found[0])) << shift;
    mask |= 255u << shift;
    wanted = found[1];
  }
  return {prefix, wanted};
}

// Calls keep(s, place, chosen) for every key in [0, count), where place counts the chosen ones
// before. All threads take part. Returns the number of chosen keys.
template <typename Seen, typename Keep>
LAMINA_GPU_FUNCTION int for_best_keys(const gpu::Global<const float>& scores, int count, int k,
                                      Seen seen, Keep keep) {
  LAMINA_GPU_SHARED(std::int32_t, warps, kThreads / gpu::kWarpSize);
  int num_seen = 0;
  for (int first = 0; first < count; first += kThreads) {
    const int s = first + gpu::thread_index();
    int total;
    count_before(s < count && seen(s), warps, total);
    num_seen += total;
  }
  const bool all = num_seen <= k;
  Threshold best{0, 0};
  if (!all) best = find_threshold(scores, count, k, seen);
  int equal = 0, chosen_before = 0;
  for (int first = 0; first < count; first += kThreads) {
    const int s = first + gpu::thread_index();
    const bool is_seen = s < count && seen(s);
    const std::uint32_t rank = is_seen && !all ? gpu::ordered(gpu::load(scores, s)) : 0;
    const bool ties = is_seen && !all && rank == best.rank;
    int num_ties, num_chosen;
    const int before = count_before(ties, warps, num_ties);
    const bool chosen =
        is_seen && (all || rank > best.rank || (ties && equal + before < best.equal));
    const int place = chosen_before + count_before(chosen, warps, num_chosen);
    if (s < count) keep(s, place, chosen);
    equal += num_ties;
    chosen_before += num_chosen;
  }
  return chosen_before;
}

// One block per row of scores.
LAMINA_GPU_FUNCTION void top_k_mask(const TopKMaskParams& p) {
  const int b = gpu::block_index() / p.tokens, t = gpu::block_index() % p.tokens;
  const std::int64_t row = std::int64_t{gpu::block_index()} * p.keys;
  const gpu::Global<const float> scores = gpu::Global<const float>(p.scores) + row;
  const gpu::Global<std::uint8_t> mask = gpu::Global<std::uint8_t>(p.mask) + row;
  const int start = id_of(p.starts, b, 0);
  const int end = gpu::min(start + (p.causal != 0 ? t : p.tokens - 1) + 1, p.keys);
  const std::int64_t ids = std::int64_t{b} * p.tokens;
  const int segment = id_of(p.segments, ids + t, 1);
  const auto seen = [&](int s) { return segment != 0 && id_of(p.segments, ids + s, 1) == segment; };
  for_best_keys(scores, end, p.k, seen, [&](int s, int, bool chosen) { mask[s] = chosen ? 1 : 0; });
  for (int s = end + gpu::thread_index(); s < p.keys; s += kThreads) mask[s] = 0;
}

// One block per token: the slots of the window, then entries of windows that have ended.
LAMINA_GPU_FUNCTION void compressed_slots(const CompressedSlotsParams& p) {
  const int row = gpu::block_index(), b = row / p.tokens, t = row % p.tokens;
  const int position = id_of(p.starts, b, 0) + t;
  const gpu::Global<std::int32_t> slots =
      gpu::Global<std::int32_t>(p.slots) + std::int64_t{row} * p.max_slots;
  const int near = gpu::min(gpu::min(p.window, p.ring), position + 1);
  for (int i = gpu::thread_index(); i < near; i += kThreads)
    slots[i] = (position - near + 1 + i) % p.ring;
  const int ended = gpu::min((position + 1) / p.ratio, p.entries);
  int count = ended;
  if (p.scores.value != 0) {
    const gpu::Global<const float> scores =
        gpu::Global<const float>(p.scores) + std::int64_t{row} * p.entries;
    count = for_best_keys(
        scores, ended, p.k, [](int) { return true; },
        [&](int e, int place, bool chosen) {
          if (chosen) slots[near + place] = p.ring + e;
        });
  } else {
    for (int e = gpu::thread_index(); e < ended; e += kThreads) slots[near + e] = p.ring + e;
  }
  if (gpu::thread_index() == 0) gpu::Global<std::int32_t>(p.counts)[row] = near + count;
}

}  // namespace

LAMINA_GPU_KERNEL_BOUNDS(top_k_mask_f32, TopKMaskParams, 256, 1) { top_k_mask(p); }
LAMINA_GPU_KERNEL_BOUNDS(compressed_attention_slots, CompressedSlotsParams, 256, 1) {
  compressed_slots(p);
}

}  // namespace lamina::cuda
