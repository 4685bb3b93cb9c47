// Sums of the softmaxes of all heads: multiplies 64 queries at a time with all keys of a head.
// Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/products.h"
#include "backends/cpu/attention/tiles.h"

namespace lamina::cpu {
namespace {

template <class V, class T, bool kPairs>
struct AttentionMass {
  using F = typename V::F;
  using Ops = Operands<V, T, kPairs>;
  static constexpr int L = V::kLanes;

  struct Scratch {
    Tokens<T> tokens;
    Word *queries, *keys, *staging;  // [64, words], [words, 64]
    float* logits;                   // [64, keys rounded up to tiles], in units of log2
  };
  static Scratch take_scratch(Arena& arena, const MassSpec& spec) {
    const std::int64_t words = Ops::words(spec.dim);
    Scratch s;
    s.queries = arena.take<Word>(kTile * words);
    s.keys = arena.take<Word>(kTile * words);
    s.staging = arena.take<Word>(kTile * round_up(words, kCell));
    s.logits = arena.take<float>(kTile * round_up(spec.k_tokens, kTile));
    return s;
  }

  static std::int64_t workspace_bytes(const MassSpec& spec) {
    Arena per_thread(nullptr);
    take_scratch(per_thread, spec);
    return num_threads() * per_thread.used_bytes();
  }

  static void run(const MassSpec& spec, const MassArgs& args, std::byte* workspace) {
    Arena per_thread(nullptr);
    take_scratch(per_thread, spec);
    const std::int64_t blocks = divide_up(spec.q_tokens, kTile);
    parallel_tasks(spec.batch * blocks, [&](std::int64_t task, int thread) {
      Arena arena(workspace + thread * per_thread.used_bytes());
      Scratch s = take_scratch(arena, spec);
      // The last queries see the most keys, so their blocks start first.
      run_block(spec, args, s, task / blocks, (blocks - 1 - task % blocks) * kTile);
    });
  }

  static void run_block(const MassSpec& spec, const MassArgs& args, Scratch& s, std::int64_t b,
                        std::int64_t first) {
    const std::int64_t count = min(kTile, spec.q_tokens - first), keys = spec.k_tokens;
    const std::int64_t row = b * spec.q_tokens + first, token = spec.heads * spec.dim;
    const std::uint8_t* keep = args.keep + row * keys;
    float* p = args.p + row * keys;
    std::memset(p, 0, static_cast<std::size_t>(count * keys) * sizeof(float));
    std::int64_t seen = 0;  // number of keys up to the last one that a query of the block keeps
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t end = keys; end > seen; --end)
        if (keep[i * keys + end - 1]) seen = end;
    const std::int64_t words = Ops::words(spec.dim), stride = round_up(keys, kTile);
    for (std::int64_t head = 0; head < spec.heads; ++head) {
      const T* q = static_cast<const T*>(args.q) + row * token + head * spec.dim;
      const T* k = static_cast<const T*>(args.k) + b * keys * token + head * spec.dim;
      for (std::int64_t i = 0; i < count; ++i) s.tokens.row[i] = q + i * token;
      Ops::rows(s.tokens, count, spec.dim, words, s.queries);
      for (std::int64_t key = 0; key < seen; key += kTile) {
        for (std::int64_t i = 0; i < kTile; ++i)
          s.tokens.row[i] = key + i < keys ? k + (key + i) * token : nullptr;
        Ops::columns(s.tokens, spec.dim, s.staging, s.keys);
        run_product<V, kPairs, false>({.rows = count,
                                       .columns = kTile,
                                       .depth = words,
                                       .a = s.queries,
                                       .a_stride = words,
                                       .b = s.keys,
                                       .b_stride = kTile,
                                       .c = s.logits + key,
                                       .c_stride = stride,
                                       .store = Store::scaled,
                                       .factor = static_cast<float>(spec.scale * kLog2E)});
      }
      for (std::int64_t i = 0; i < count; ++i)
        add_softmax(s.logits + i * stride, keep + i * keys, seen, p + i * keys);
    }
  }

  static void add_softmax(float* x, const std::uint8_t* keep, std::int64_t count, float* p) {
    float max = kMasked;
    for (std::int64_t s = 0; s < count; ++s) {
      x[s] = keep[s] ? x[s] : kMasked;
      max = x[s] > max ? x[s] : max;
    }
    if (max < kEmpty) return;
    const std::int64_t whole = count / L * L;
    F sums{};
    for (std::int64_t s = 0; s < whole; s += L) {
      const F e = V::template exp2<6>(V::load(x + s) - V::set(max));
      V::store(x + s, e);
      sums = sums + e;
    }
    float sum = V::sum_lanes(sums)[0];
    for (std::int64_t s = whole; s < count; ++s) sum += x[s] = __builtin_exp2f(x[s] - max);
    const float factor = 1 / sum;
    for (std::int64_t s = 0; s < count; ++s) p[s] += x[s] * factor;
  }
};

}  // namespace
}  // namespace lamina::cpu
