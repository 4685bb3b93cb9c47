// Scores of the indexer of latent attention: products of queries and keys, and their weighted sums
// over the heads. Internal to each file that includes it.
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
          for (std::int64_t j = 0; j < kTile / L; ++j)
            sums[j] = V::multiply_add(V::max(V::load(s.products + i * kTile + j * L), F{}),
                                      V::set(weights[head + i]), sums[j]);
      }
      alignas(64) float row[kTile];
      for (std::int64_t j = 0; j < kTile / L; ++j) V::store(row + j * L, sums[j]);
      std::memcpy(args.scores + token * spec.keys + first, row,
                  static_cast<std::size_t>(count) * sizeof(float));
    }
  }
};

}  // namespace
}  // namespace lamina::cpu
