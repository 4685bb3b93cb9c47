// Scores of the indexer of latent attention, and their gradients. A score is a sum over the heads
// of weighted products of queries and keys. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/latent.h"
#include "backends/cpu/attention/products.h"
#include "backends/cpu/attention/tiles.h"

namespace lamina::cpu {
namespace {

// Computes tiles of 64 keys as tasks: a tile's columns serve all queries.
template <class V, class T, bool kPairs>
struct IndexScores {
  using F = typename V::F;
  using Ops = Operands<V, T, kPairs>;
  static constexpr int L = V::kLanes;

  struct Scratch {
    Tokens<T> tokens;
    Word *keys, *staging;  // [words of the dim, 64 keys]
    Word* rows;            // the heads of one query, 64 at a time
    float* products;       // [64 heads, 64 keys]
  };
  static Scratch take_scratch(Arena& arena, const IndexSpec& spec) {
    Scratch s;
    s.keys = arena.take<Word>(Ops::words(spec.dim) * kTile);
    s.staging = arena.take<Word>(kTile * round_up(Ops::words(spec.dim), kCell));
    s.rows = arena.take<Word>(kTile * Ops::words(spec.dim));
    s.products = arena.take<float>(kTile * kTile);
    return s;
  }

  static std::int64_t workspace_bytes(const IndexSpec& spec) {
    Arena per_thread(nullptr);
    take_scratch(per_thread, spec);
    return num_threads() * per_thread.used_bytes();
  }

  static void run(const IndexSpec& spec, const IndexArgs& args, std::byte* workspace) {
    Arena per_thread(nullptr);
    take_scratch(per_thread, spec);
    std::int64_t max_keys = args.ends ? 0 : spec.keys;
    for (std::int64_t b = 0; args.ends && b < spec.batch; ++b)
      max_keys = max(max_keys, end_of(spec, args, b));
    const std::int64_t tiles = divide_up(max_keys, kTile);
    parallel_tasks(spec.batch * tiles, [&](std::int64_t task, int thread) {
      Arena arena(workspace + thread * per_thread.used_bytes());
      Scratch s = take_scratch(arena, spec);
      const std::int64_t b = task / tiles, first = task % tiles * kTile;
      if (first < end_of(spec, args, b)) score_tile(spec, args, s, b, first);
    });
    if (!args.ends) return;
    parallel_tasks(spec.batch * spec.tokens, [&](std::int64_t row, int) {
      const std::int64_t end = end_of(spec, args, row / spec.tokens);
      std::memset(args.scores + row * spec.keys + end, 0,
                  static_cast<std::size_t>(spec.keys - end) * sizeof(float));
    });
  }

  // Number of keys that count in batch row b.
  static std::int64_t end_of(const IndexSpec& spec, const IndexArgs& args, std::int64_t b) {
    return args.ends ? min(args.ends[b], spec.keys) : spec.keys;
  }

  static void score_tile(const IndexSpec& spec, const IndexArgs& args, Scratch& s, std::int64_t b,
                         std::int64_t first) {
    const std::int64_t count = min(kTile, end_of(spec, args, b) - first),
                       words = Ops::words(spec.dim);
    const T* k = static_cast<const T*>(args.k) + (b * spec.keys + first) * spec.dim;
    for (std::int64_t i = 0; i < kTile; ++i)
      s.tokens.row[i] = i < count ? k + i * spec.dim : nullptr;
    Ops::columns(s.tokens, spec.dim, s.staging, s.keys);
    for (std::int64_t t = 0; t < spec.tokens; ++t) {
      const std::int64_t token = b * spec.tokens + t;
      const T* q = static_cast<const T*>(args.q) + token * spec.heads * spec.dim;
      const float* weights = args.weights + token * spec.heads;
      F sums[kTile / L];
      for (F& sum : sums) sum = F{};
      for (std::int64_t head = 0; head < spec.heads; head += kTile) {
        const std::int64_t heads = min(kTile, spec.heads - head);
        for (std::int64_t i = 0; i < heads; ++i) s.tokens.row[i] = q + (head + i) * spec.dim;
        Ops::rows(s.tokens, heads, spec.dim, words, s.rows);
        run_product<V, kPairs, false>({.rows = heads,
                                       .columns = kTile,
                                       .depth = words,
                                       .a = s.rows,
                                       .a_stride = words,
                                       .b = s.keys,
                                       .b_stride = kTile,
                                       .c = s.products,
                                       .c_stride = kTile,
                                       .store = Store::scaled});
        for (std::int64_t i = 0; i < heads; ++i)
          for (std::int64_t j = 0; j < kTile / L; ++j)  // a NaN stays, as the second operand of max
            sums[j] = V::multiply_add(V::max(F{}, V::load(s.products + i * kTile + j * L)),
                                      V::set(weights[head + i]), sums[j]);
      }
      alignas(64) float row[kTile];
      for (std::int64_t j = 0; j < kTile / L; ++j) V::store(row + j * L, sums[j]);
      std::memcpy(args.scores + token * spec.keys + first, row,
                  static_cast<std::size_t>(count) * sizeof(float));
    }
  }
};

// Gradients: tiles of 64 keys by the heads of a query are computed twice, so that the products of
// all pairs are never stored. Sums are f32. With p[i, s] = q[i] . k[s] of one query: dp =
// dscores[s] weights[i] where p > 0, and
//   dweights[i] = sum over s of dscores[s] max(0, p);  dq = dp k;  dk = sum over queries of dp^T q.

constexpr std::int64_t kIndexBlock = 8;  // queries that share the copies of a tile of keys

template <class V, class T>
struct IndexScoresGrad {
  using F = typename V::F;
  using Ops = Operands<V, T, false>;
  static constexpr int L = V::kLanes;

  struct Scratch {
    Tokens<T> tokens;
    Word *keys, *staging;  // [dim, 64 keys]
    Word* key_rows;        // [64, width]: dims, rounded up to whole cells
    Word* heads;           // likewise of up to 64 heads of a query
    float* p;              // [64 heads, 64 keys], then dp
    float* sums;           // [block, 64 heads, width], or [64 keys, width]
    float* dweights;       // [block, 64 heads]
  };
  static std::int64_t width(const IndexSpec& spec) { return round_up(spec.dim, kCell); }
  static Scratch take_scratch(Arena& arena, const IndexSpec& spec) {
    const std::int64_t row = width(spec);
    Scratch s;
    s.keys = arena.take<Word>(kTile * row);
    s.staging = arena.take<Word>(kTile * row);
    s.key_rows = arena.take<Word>(kTile * row);
    s.heads = arena.take<Word>(kTile * row);
    s.p = arena.take<float>(kTile * kTile);
    s.sums = arena.take<float>(kIndexBlock * kTile * row);
    s.dweights = arena.take<float>(kIndexBlock * kTile);
    return s;
  }

  static std::int64_t workspace_bytes(const IndexSpec& spec) {
    Arena per_thread(nullptr);
    take_scratch(per_thread, spec);
    return num_threads() * per_thread.used_bytes();
  }

  static void run(const IndexSpec& spec, const IndexGradArgs& args, std::byte* workspace) {
    Arena per_thread(nullptr);
    take_scratch(per_thread, spec);
    auto with_scratch = [&](std::int64_t tasks, auto part) {
      parallel_tasks(tasks, [&](std::int64_t task, int thread) {
        Arena arena(workspace + thread * per_thread.used_bytes());
        Scratch s = take_scratch(arena, spec);
        part(s, task);
      });
    };
    const std::int64_t chunks = divide_up(spec.heads, kTile);
    const std::int64_t blocks = divide_up(spec.tokens, kIndexBlock);
    with_scratch(spec.batch * blocks * chunks, [&](Scratch& s, std::int64_t task) {
      const std::int64_t block = task / chunks % blocks;
      of_queries(spec, args, s, task / chunks / blocks, block * kIndexBlock, task % chunks * kTile);
    });
    if (args.dk == nullptr) return;
    const std::int64_t tiles = divide_up(spec.keys, kTile);
    with_scratch(spec.batch * tiles, [&](Scratch& s, std::int64_t task) {
      of_keys(spec, args, s, task / tiles, task % tiles * kTile);
    });
  }

  static void take_keys(const IndexSpec& spec, const IndexGradArgs& args, Scratch& s,
                        std::int64_t b, std::int64_t first, bool rows) {
    const T* k = static_cast<const T*>(args.k) + (b * spec.keys + first) * spec.dim;
    for (std::int64_t i = 0; i < kTile; ++i)
      s.tokens.row[i] = first + i < spec.keys ? k + i * spec.dim : nullptr;
    Ops::columns(s.tokens, spec.dim, s.staging, s.keys);
    if (rows) Ops::across(s.tokens, kTile, spec.dim, width(spec), s.key_rows);
  }

  // Copies the `heads` heads from `head` on of query `token`, as rows.
  static void take_heads(const IndexSpec& spec, const IndexGradArgs& args, Scratch& s,
                         std::int64_t token, std::int64_t head, std::int64_t heads) {
    const T* q = static_cast<const T*>(args.q) + (token * spec.heads + head) * spec.dim;
    for (std::int64_t i = 0; i < heads; ++i) s.tokens.row[i] = q + i * spec.dim;
    Ops::across(s.tokens, heads, spec.dim, width(spec), s.heads);
  }

  // True if one of these gradients is not 0.
  static bool any(const float* dscores, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      if (dscores[i] != 0) return true;
    return false;
  }

  // Sets s.p = dp of the heads in s.heads and the keys in s.keys; adds to dweights if it is not
  // null.
  static void pairs(const IndexSpec& spec, Scratch& s, std::int64_t heads, const float* weights,
                    const float* dscores, std::int64_t count, float* dweights) {
    run_product<V, false, false>({.rows = heads,
                                  .columns = kTile,
                                  .depth = spec.dim,
                                  .a = s.heads,
                                  .a_stride = width(spec),
                                  .b = s.keys,
                                  .b_stride = kTile,
                                  .c = s.p,
                                  .c_stride = kTile,
                                  .store = Store::scaled});
    alignas(64) float d[kTile] = {};
    std::memcpy(d, dscores, static_cast<std::size_t>(count) * sizeof(float));
    for (std::int64_t i = 0; i < heads; ++i) {
      float* p = s.p + i * kTile;
      F sum{};
      for (std::int64_t j = 0; j < kTile; j += L) {
        const F x = V::load(p + j), ds = V::load(d + j);
        sum = V::multiply_add(V::max(F{}, x), ds, sum);
        V::store(p + j, x > F{} ? ds * V::set(weights[i]) : F{});
      }
      if (dweights) dweights[i] += V::sum_lanes(sum)[0];
    }
  }

  // Computes dq and dweights of a block of queries, for some heads.
  static void of_queries(const IndexSpec& spec, const IndexGradArgs& args, Scratch& s,
                         std::int64_t b, std::int64_t first, std::int64_t head) {
    const std::int64_t heads = min(kTile, spec.heads - head), row = width(spec);
    const std::int64_t count = min(kIndexBlock, spec.tokens - first);
    std::memset(s.sums, 0, static_cast<std::size_t>(count * kTile * row) * sizeof(float));
    std::memset(s.dweights, 0, static_cast<std::size_t>(count * kTile) * sizeof(float));
    for (std::int64_t key = 0; key < spec.keys; key += kTile) {
      const std::int64_t keys = min(kTile, spec.keys - key);
      bool taken = false;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t token = b * spec.tokens + first + i;
        const float* dscores = args.dscores + token * spec.keys + key;
        if (!any(dscores, keys)) continue;
        if (!taken) take_keys(spec, args, s, b, key, true);
        taken = true;
        take_heads(spec, args, s, token, head, heads);
        pairs(spec, s, heads, args.weights + token * spec.heads + head, dscores, keys,
              s.dweights + i * kTile);
        run_product<V, false, false>({.rows = heads,
                                      .columns = row,
                                      .depth = kTile,
                                      .a = reinterpret_cast<const Word*>(s.p),
                                      .a_stride = kTile,
                                      .b = s.key_rows,
                                      .b_stride = row,
                                      .c = s.sums + i * kTile * row,
                                      .c_stride = row});
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = (b * spec.tokens + first + i) * spec.heads + head;
      for (std::int64_t h = 0; h < heads; ++h)
        Ops::store_row(reinterpret_cast<const Word*>(s.sums + (i * kTile + h) * row), spec.dim,
                       static_cast<T*>(args.dq) + (at + h) * spec.dim);
      if (args.dweights)
        std::memcpy(args.dweights + at, s.dweights + i * kTile,
                    static_cast<std::size_t>(heads) * sizeof(float));
    }
  }

  // Computes dk of a tile of keys.
  static void of_keys(const IndexSpec& spec, const IndexGradArgs& args, Scratch& s, std::int64_t b,
                      std::int64_t first) {
    const std::int64_t keys = min(kTile, spec.keys - first), row = width(spec);
    std::memset(s.sums, 0, static_cast<std::size_t>(kTile * row) * sizeof(float));
    take_keys(spec, args, s, b, first, false);
    for (std::int64_t t = 0; t < spec.tokens; ++t) {
      const std::int64_t token = b * spec.tokens + t;
      const float* dscores = args.dscores + token * spec.keys + first;
      if (!any(dscores, keys)) continue;
      for (std::int64_t head = 0; head < spec.heads; head += kTile) {
        const std::int64_t heads = min(kTile, spec.heads - head);
        take_heads(spec, args, s, token, head, heads);
        pairs(spec, s, heads, args.weights + token * spec.heads + head, dscores, keys, nullptr);
        run_product<V, false, true>({.rows = keys,
                                     .columns = row,
                                     .depth = heads,
                                     .a = reinterpret_cast<const Word*>(s.p),
                                     .a_stride = kTile,
                                     .b = s.heads,
                                     .b_stride = row,
                                     .c = s.sums,
                                     .c_stride = row});
      }
    }
    for (std::int64_t i = 0; i < keys; ++i)
      Ops::store_row(reinterpret_cast<const Word*>(s.sums + i * row), spec.dim,
                     static_cast<T*>(args.dk) + (b * spec.keys + first + i) * spec.dim);
  }
};

}  // namespace
}  // namespace lamina::cpu
