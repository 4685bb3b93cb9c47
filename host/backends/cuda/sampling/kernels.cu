// The likeliest tokens of each row of logits, and the group of tokens in which a draw falls.
//
// Two kernels each: blocks read parts of a row once, in registers, and one block per row combines
// the parts. Bound by reading the logits for many rows; for one row by the latency of the second
// kernel. Weights are in f64, so that the host can tell on which side of a limit a sum is.
#include "backends/cuda/gpu/ordered_keys.h"
#include "backends/cuda/gpu/prefix.h"
#include "backends/cuda/gpu/sums.h"
#include "backends/cuda/sampling/params.h"

namespace lamina::cuda {
namespace {

using gpu::Global;
using gpu::Shared;
using Key = std::uint64_t;

constexpr int kThreads = kSamplingThreads, kItems = kIdsPerThread;

LAMINA_GPU_FUNCTION std::int64_t row_index() { return gpu::block_index_y(); }

// 1 / temperature, as finite for the temperature 0.
LAMINA_GPU_FUNCTION double rate_of(const SamplingRows& p) {
  constexpr double kLeastTemperature = 1e-300;
  return 1 / gpu::max(double{Global<const double>(p.temperature)[0]}, kLeastTemperature);
}

// exp(below * rate) for a logit that is `below` <= 0 from the largest one. All weights of a row
// that are left out are less than one rounding of their sum, which is at least 1.
LAMINA_GPU_FUNCTION double weight_of(double below, double rate) {
  constexpr double kLeastExponent = -80;
  const double exponent = below * rate;
  return exponent < kLeastExponent ? 0.0 : gpu::exp(exponent);
}

// The ids of one part of a row: item j of a thread is id first + j kThreads + thread.
struct Part {
  float logits[kItems];  // -infinity after the last id
  int first, count;
  float largest;  // of the part; NaN counts as nothing

  LAMINA_GPU_FUNCTION explicit Part(const SamplingRows& p) {
    const Global<const float> row = Global<const float>(p.logits) + row_index() * p.width;
    first = gpu::block_index() * kPartIds;
    count = gpu::min(kPartIds, p.width - first);
    const float least = -gpu::infinity();
    LAMINA_GPU_UNROLL
    for (int j = 0; j < kItems; ++j) {
      const int i = j * kThreads + gpu::thread_index();
      logits[j] = i < count ? row[first + i] : least;
    }
    float mine = least;
    LAMINA_GPU_UNROLL
    for (int j = 0; j < kItems; ++j)
      if (logits[j] > mine) mine = logits[j];
    largest = gpu::block_max(mine, least);
  }

  LAMINA_GPU_FUNCTION double weight(int j, double rate) const {
    // A part without a number has the weight 0.
    const float from = largest == -gpu::infinity() ? 0.0f : largest;
    return weight_of(double{logits[j]} - double{from}, rate);
  }
  LAMINA_GPU_FUNCTION Key key(int j, float logit) const {
    const int i = j * kThreads + gpu::thread_index();
    return i < count ? gpu::key_of(logit, first + i) : 0;
  }
};

// Relates the weights of parts to the largest logit of the row. [all threads]
struct PartScale {
  Global<const float> of_parts;
  double largest, rate;

  LAMINA_GPU_FUNCTION explicit PartScale(const SamplingRows& p) : rate(rate_of(p)) {
    of_parts = Global<const float>(p.largest) + row_index() * p.parts;
    const float least = -gpu::infinity();
    float mine = least;
    for (int part = gpu::thread_index(); part < p.parts; part += kThreads)
      mine = gpu::max(mine, float{of_parts[part]});
    largest = double{gpu::block_max(mine, least)};
  }
  // NaN if all logits are -infinity.
  LAMINA_GPU_FUNCTION double operator()(int part) const {
    return weight_of(double{float{of_parts[part]}} - largest, rate);
  }
};

// Selects the first keys out of more than fit into shared memory.
struct Selection {
  static constexpr int kRoom = 2 * kThreads;
  Shared<Key> list;     // [kRoom]
  Shared<int> scratch;  // [kThreads / 32]
  int k;

  // Puts the k largest keys into list[0, k), the largest first; 0 where there are fewer.
  // Thread t reads the keys get(r), for rounds r, which are 0 if there is none. [all threads]
  template <typename Get>
  LAMINA_GPU_FUNCTION void select(int rounds, const Get& get) const {
    const int thread = gpu::thread_index();
    Key mine = 0;
    for (int r = 0; r < rounds; ++r) mine = gpu::max(mine, get(r));
    // k threads have a key from `bound` on, so no key below it is among the k largest.
    list[thread] = mine;
    gpu::sort<Key>(list, kThreads, gpu::Larger{});
    Key bound = list[k - 1];
    gpu::sync();
    int filled = 0;
    for (int r = 0; r < rounds; ++r) {
      const Key key = get(r);
      const bool taken = key != 0 && key >= bound;
      const auto places = gpu::block_prefix_sum(taken ? 1 : 0, scratch);
      if (filled + places.total > kRoom) {
        keep_first(filled);
        filled = k;
        bound = list[k - 1];
      }
      if (taken) list[filled + places.before] = key;
      filled += places.total;
    }
    keep_first(filled);
  }

 private:
  LAMINA_GPU_FUNCTION void keep_first(int filled) const {
    gpu::sync();
    for (int i = filled + gpu::thread_index(); i < kRoom; i += kThreads) list[i] = 0;
    gpu::sort<Key>(list, kRoom, gpu::Larger{});
  }
};

}  // namespace

LAMINA_GPU_KERNEL_BOUNDS(sampling_likeliest_parts, LikeliestParams, kThreads, 1) {
  LAMINA_GPU_SHARED(Key, list, Selection::kRoom);
  LAMINA_GPU_SHARED(int, scratch, kThreads / 32);
  const Part part(p.rows);
  const double rate = rate_of(p.rows);
  double sum = 0;
  LAMINA_GPU_UNROLL
  for (int j = 0; j < kItems; ++j) sum += part.weight(j, rate);
  sum = gpu::block_sum(sum);
  const std::int64_t place = row_index() * p.rows.parts + gpu::block_index();
  if (gpu::thread_index() == 0) {
    Global<float>(p.rows.largest)[place] = part.largest;
    Global<double>(p.weights)[place] = sum;
  }
  const Global<Key> keys = Global<Key>(p.keys) + place * p.k;
  if (p.k == 1) {
    Key mine = 0;
    LAMINA_GPU_UNROLL
    for (int j = 0; j < kItems; ++j) mine = gpu::max(mine, part.key(j, part.logits[j]));
    mine = gpu::block_max(mine, Key{0});
    if (gpu::thread_index() == 0) keys[0] = mine;
    return;
  }
  // Registers have no index. A thread reads what it wrote.
  LAMINA_GPU_SHARED(float, logits, kPartIds);
  LAMINA_GPU_UNROLL
  for (int j = 0; j < kItems; ++j) logits[j * kThreads + gpu::thread_index()] = part.logits[j];
  const Selection selection{list, scratch, p.k};
  selection.select(kItems,
                   [&](int j) { return part.key(j, logits[j * kThreads + gpu::thread_index()]); });
  if (const int i = gpu::thread_index(); i < p.k) keys[i] = Key{list[i]};
}

LAMINA_GPU_KERNEL_BOUNDS(sampling_likeliest, LikeliestParams, kThreads, 1) {
  LAMINA_GPU_SHARED(Key, list, Selection::kRoom);
  LAMINA_GPU_SHARED(int, scratch, kThreads / 32);
  const PartScale scale(p.rows);
  const Global<const double> weights = Global<const double>(p.weights) + row_index() * p.rows.parts;
  double sum = 0;
  for (int part = gpu::thread_index(); part < p.rows.parts; part += kThreads)
    sum += double{weights[part]} * scale(part);
  sum = gpu::block_sum(sum);
  if (gpu::thread_index() == 0) Global<double>(p.weight)[row_index()] = sum;

  const int count = p.rows.parts * p.k;
  const Global<const Key> keys = Global<const Key>(p.keys) + row_index() * count;
  const Selection selection{list, scratch, p.k};
  selection.select((count + kThreads - 1) / kThreads, [&](int r) {
    const int i = r * kThreads + gpu::thread_index();
    return i < count ? Key{keys[i]} : Key{0};
  });
  if (const int i = gpu::thread_index(); i < p.k) {
    const int id = gpu::index_of(list[i]);
    Global<std::int32_t>(p.ids)[row_index() * p.k + i] = id;
    Global<float>(p.values)[row_index() * p.k + i] =
        Global<const float>(p.rows.logits)[row_index() * p.rows.width + id];
  }
}

// A group of ids is one item of all threads.
LAMINA_GPU_KERNEL_BOUNDS(sampling_group_weights, AtDrawParams, kThreads, 1) {
  constexpr int kWarps = kThreads / 32;
  LAMINA_GPU_SHARED(double, of_warps, kItems* kWarps);
  const Part part(p.rows);
  const double rate = rate_of(p.rows);
  LAMINA_GPU_UNROLL
  for (int j = 0; j < kItems; ++j) {
    const double sum = gpu::warp_sum(part.weight(j, rate));
    if (gpu::lane() == 0) of_warps[j * kWarps + gpu::warp_index()] = sum;
  }
  gpu::sync();
  const std::int64_t place = row_index() * p.rows.parts + gpu::block_index();
  if (gpu::thread_index() == 0) Global<float>(p.rows.largest)[place] = part.largest;
  if (const int j = gpu::thread_index(); j < kItems) {
    double sum = 0;
    for (int warp = 0; warp < kWarps; ++warp) sum += of_warps[j * kWarps + warp];
    Global<double>(p.sums)[place * kItems + j] = sum;
  }
}

// A thread adds the weights of neighbouring groups.
LAMINA_GPU_KERNEL_BOUNDS(sampling_at_draw, AtDrawParams, kThreads, 1) {
  LAMINA_GPU_SHARED(double, sums_scratch, kThreads / 32);
  LAMINA_GPU_SHARED(int, scratch, kThreads / 32);
  const PartScale scale(p.rows);
  const int groups = (p.rows.width + kThreads - 1) / kThreads;
  const int per_thread = (groups + kThreads - 1) / kThreads;
  const int begin = gpu::min(groups, gpu::thread_index() * per_thread);
  const int end = gpu::min(groups, begin + per_thread);
  const Global<const double> sums =
      Global<const double>(p.sums) + row_index() * p.rows.parts * kItems;
  const auto weight = [&](int group) { return double{sums[group]} * scale(group / kItems); };
  double sum = 0;
  for (int group = begin; group < end; ++group) sum += weight(group);
  const auto all = gpu::block_prefix_sum(sum, sums_scratch);
  const double target = double{Global<const double>(p.draws)[row_index()]} * all.total;
  int passed = 0;
  double through = all.before;
  for (int group = begin; group < end; ++group) {
    through += weight(group);
    if (through <= target) ++passed;
  }
  passed = gpu::block_prefix_sum(passed, scratch).total;
  const int chosen = gpu::min(passed, groups - 1);
  if (begin <= chosen && chosen < end) {
    double before = all.before;
    for (int group = begin; group < chosen; ++group) before += weight(group);
    Global<double>(p.before)[row_index()] = before;
    Global<std::int32_t>(p.first)[row_index()] = chosen * kThreads;
    Global<float>(p.row_largest)[row_index()] = static_cast<float>(scale.largest);
    Global<double>(p.weight)[row_index()] = all.total;
  }
  const int id = chosen * kThreads + gpu::thread_index();
  Global<float>(p.values)[row_index() * kThreads + gpu::thread_index()] =
      id < p.rows.width ? Global<const float>(p.rows.logits)[row_index() * p.rows.width + id]
                        : -gpu::infinity();
}

}  // namespace lamina::cuda
