// Latent attention over decode state: products around the tiles of attention. Internal to each file
// that includes it.
#pragma once

#include "backends/cpu/attention/forward_simd.h"
#include "backends/cpu/attention/latent.h"
#include "backends/cpu/attention/latent_rows.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kLatentTokens = 64;  // of all batch rows, at a time
constexpr std::int64_t kDotRows = 4;        // up to this number of rows w_kv is not copied

template <class V, class T, bool kPairs>
struct Latent {
  using F = typename V::F;
  using Ops = Operands<V, T, kPairs>;
  using Attention = Forward<V, T, kPairs>;
  using Rows = LatentRows<V, T, kPairs>;
  static constexpr int L = V::kLanes;

  // Number of new tokens of a batch row per chunk.
  static std::int64_t chunk_tokens(const LatentSpec& s) {
    return max(1, min(s.tokens, kLatentTokens / max(s.batch, 1)));
  }

  static AttentionSpec inner(const LatentSpec& s, std::int64_t tokens) {
    return {.dtype = s.dtype,
            .batch = s.batch,
            .q_tokens = tokens,
            .kv_tokens = s.capacity,
            .heads = s.heads,
            .kv_heads = 1,
            .qk_dim = s.rank + s.rope_dim,
            .v_dim = s.rank,
            .scale = s.scale,
            .soft_cap = s.soft_cap,
            .k_tail_dim = s.rope_dim};
  }

  struct Shared {
    T *q, *o;  // [batch, chunk, heads, rank + rope_dim] and [.., rank]
    std::int32_t* starts;
  };
  struct Scratch {
    Tokens<T> tokens;
    Word* rows;     // 64 rows of operands: of q, or of w_kv
    Word* across;   // W_K as [nope words, rank], or columns of o
    Word* staging;  // of columns
    float* sums;    // [64, widest]
  };

  static Shared take_shared(Arena& arena, const LatentSpec& s) {
    const std::int64_t rows = s.batch * chunk_tokens(s) * s.heads;
    Shared out;
    out.q = arena.take<T>(rows * (s.rank + s.rope_dim));
    out.o = arena.take<T>(rows * s.rank);
    out.starts = arena.take<std::int32_t>(s.batch);
    return out;
  }

  static Scratch take_scratch(Arena& arena, const LatentSpec& s) {
    const std::int64_t words = max(Ops::words(s.nope_dim), Ops::words(s.rank));
    const std::int64_t width = round_up(s.rank, kCell);
    Scratch out;
    out.rows = arena.take<Word>(kTile * words);
    out.across = arena.take<Word>(
        max(divide_up(s.nope_dim, kTile) * Ops::kDepth * width, Ops::words(s.rank) * kTile));
    out.staging = arena.take<Word>(kTile * round_up(words, kCell));
    out.sums = arena.take<float>(kTile * max(width, kTile));
    return out;
  }

  static std::int64_t workspace_bytes(const LatentSpec& s) {
    Arena shared(nullptr), per_thread(nullptr);
    take_shared(shared, s);
    take_scratch(per_thread, s);
    const std::int64_t chunk = chunk_tokens(s);
    std::int64_t attention = ForwardMemory<V, T, kPairs>::workspace_bytes(inner(s, chunk), true);
    if (s.tokens % chunk != 0)
      attention = max(attention, ForwardMemory<V, T, kPairs>::workspace_bytes(
                                     inner(s, s.tokens % chunk), true));
    return shared.used_bytes() + max(attention, num_threads() * per_thread.used_bytes());
  }

  static void run(const LatentSpec& s, const LatentArgs& args, std::byte* workspace) {
    Arena arena(workspace);
    const Shared shared = take_shared(arena, s);
    std::byte* rest = workspace + arena.used_bytes();
    Arena per_thread(nullptr);
    take_scratch(per_thread, s);
    const std::int64_t chunk = chunk_tokens(s);
    for (std::int64_t first = 0; first < s.tokens; first += chunk) {
      const Chunk c{s, args, shared, first, min(chunk, s.tokens - first)};
      auto with_scratch = [&](auto part) {
        parallel_tasks(s.heads, [&](std::int64_t head, int thread) {
          Arena own(rest + thread * per_thread.used_bytes());
          Scratch scratch = take_scratch(own, s);
          part(c, scratch, head);
        });
      };
      with_scratch(absorb_queries);
      attend(c, rest);
      with_scratch(give_values);
    }
  }

  struct Chunk {
    const LatentSpec& spec;
    const LatentArgs& args;
    const Shared& shared;
    std::int64_t first, tokens;

    std::int64_t rows() const { return spec.batch * tokens; }
    std::int64_t head_width() const { return spec.nope_dim + spec.v_dim; }
    // Returns the offset of row r, which is token r % tokens of batch row r / tokens, in a tensor
    // [.., heads, width] of the whole call, or of the chunk.
    std::int64_t in_call(std::int64_t r, std::int64_t head, std::int64_t width) const {
      const std::int64_t token = r / tokens * spec.tokens + first + r % tokens;
      return (token * spec.heads + head) * width;
    }
    std::int64_t in_chunk(std::int64_t r, std::int64_t head, std::int64_t width) const {
      return (r * spec.heads + head) * width;
    }
    const T* weights(std::int64_t head, std::int64_t row) const {
      return static_cast<const T*>(args.w_kv) + (head * head_width() + row) * spec.rank;
    }
  };

  // True if rows of W_K can be added in pairs, as bf16 products need them.
  static bool by_pairs(const LatentSpec& s) {
    return kPairs && s.rank % Rows::kElements == 0 && s.nope_dim % kRowsTogether == 0;
  }

  // Computes q' of one head for few tokens: reads W_K in place, some rows at a time.
  static void absorb_few(const Chunk& c, Scratch& s, std::int64_t head) {
    const LatentSpec& spec = c.spec;
    const std::int64_t width = round_up(spec.rank, kCell);
    const std::int64_t q_width = spec.nope_dim + spec.rope_dim,
                       to_width = spec.rank + spec.rope_dim;
    const T* q = static_cast<const T*>(c.args.q);
    std::int64_t h = 0;
    const auto each_row = [&](auto add) {
      for (std::int64_t r = 0; r < c.rows(); ++r)
        add(c.weights(head, h), q + c.in_call(r, head, q_width) + h, spec.rank, h == 0,
            s.sums + r * width);
    };
    const bool pairs = by_pairs(spec);
    if constexpr (kPairs)
      for (; pairs && h < spec.nope_dim; h += kRowsTogether) each_row(Rows::add_pairs);
    for (; h + 4 <= spec.nope_dim; h += 4) each_row(Rows::template add<4>);
    for (; h < spec.nope_dim; ++h) each_row(Rows::template add<1>);
    for (std::int64_t r = 0; r < c.rows(); ++r) {
      if (pairs) Rows::order_sums(s.sums + r * width, spec.rank);
      T* to = c.shared.q + c.in_chunk(r, head, to_width);
      Ops::store_row(reinterpret_cast<const Word*>(s.sums + r * width), spec.rank, to);
      std::memcpy(to + spec.rank, q + c.in_call(r, head, q_width) + spec.nope_dim,
                  static_cast<std::size_t>(spec.rope_dim) * sizeof(T));
    }
  }

  // Computes q' of one head.
  static void absorb_queries(const Chunk& c, Scratch& s, std::int64_t head) {
    if (c.rows() <= kDotRows) return absorb_few(c, s, head);
    const LatentSpec& spec = c.spec;
    const std::int64_t width = round_up(spec.rank, kCell), words = Ops::words(spec.nope_dim);
    const std::int64_t q_width = spec.nope_dim + spec.rope_dim,
                       to_width = spec.rank + spec.rope_dim;
    for (std::int64_t h = 0; h < spec.nope_dim; h += kTile) {
      const std::int64_t count = min(kTile, spec.nope_dim - h);
      for (std::int64_t i = 0; i < kTile; ++i)
        s.tokens.row[i] = i < count ? c.weights(head, h + i) : nullptr;
      Ops::across(s.tokens, count, spec.rank, width, s.across + h / kTile * Ops::kDepth * width);
    }
    const T* q = static_cast<const T*>(c.args.q);
    for (std::int64_t r = 0; r < c.rows(); r += kTile) {
      const std::int64_t count = min(kTile, c.rows() - r);
      for (std::int64_t i = 0; i < count; ++i)
        s.tokens.row[i] = q + c.in_call(r + i, head, q_width);
      Ops::rows(s.tokens, count, spec.nope_dim, words, s.rows);
      run_product<V, kPairs, false>({.rows = count,
                                     .columns = width,
                                     .depth = words,
                                     .a = s.rows,
                                     .a_stride = words,
                                     .b = s.across,
                                     .b_stride = width,
                                     .c = s.sums,
                                     .c_stride = width,
                                     .store = Store::scaled});
      for (std::int64_t i = 0; i < count; ++i) {
        T* to = c.shared.q + c.in_chunk(r + i, head, to_width);
        Ops::store_row(reinterpret_cast<const Word*>(s.sums + i * width), spec.rank, to);
        std::memcpy(to + spec.rank, s.tokens.row[i] + spec.nope_dim,
                    static_cast<std::size_t>(spec.rope_dim) * sizeof(T));
      }
    }
  }

  static void attend(const Chunk& c, std::byte* workspace) {
    const LatentSpec& spec = c.spec;
    for (std::int64_t b = 0; b < spec.batch; ++b)
      c.shared.starts[b] = c.args.starts[b] + static_cast<std::int32_t>(c.first);
    const AttentionInput latent{c.args.latent, {spec.capacity * spec.rank, spec.rank, 0}};
    const AttentionForwardArgs attention{
        .q = {c.shared.q, contiguous_strides(c.tokens, spec.heads, spec.rank + spec.rope_dim)},
        .k = latent,
        .v = latent,
        .k_tail = {c.args.k_rope, {spec.capacity * spec.rope_dim, spec.rope_dim, 0}},
        .masks = {.keep = c.args.keep ? c.args.keep + c.first * spec.capacity : nullptr,
                  .keep_batch = spec.tokens * spec.capacity},
        .o = {c.shared.o, contiguous_strides(c.tokens, spec.heads, spec.rank)}};
    const AttentionCache cache{.starts = c.shared.starts};
    Attention::run(inner(spec, c.tokens), attention, &cache, workspace);
  }

  // Computes y of one head.
  static void give_values(const Chunk& c, Scratch& s, std::int64_t head) {
    const LatentSpec& spec = c.spec;
    T* y = static_cast<T*>(c.args.y);
    const std::int64_t words = Ops::words(spec.rank);
    for (std::int64_t r = 0; r < c.rows(); r += kTile) {
      const std::int64_t count = min(kTile, c.rows() - r);
      for (std::int64_t i = 0; i < kTile; ++i)
        s.tokens.row[i] = i < count ? c.shared.o + c.in_chunk(r + i, head, spec.rank) : nullptr;
      const Tokens<T> o = s.tokens;
      const bool by_dots = count <= kDotRows;
      if (!by_dots) Ops::columns(o, spec.rank, s.staging, s.across);
      for (std::int64_t j = 0; j < spec.v_dim; j += kTile) {
        const std::int64_t values = min(kTile, spec.v_dim - j);
        const std::int64_t columns = round_up(count, kCell);
        for (std::int64_t i = 0; i < kTile; ++i)
          s.tokens.row[i] = i < values ? c.weights(head, spec.nope_dim + j + i) : nullptr;
        if (!by_dots) {
          Ops::rows(s.tokens, values, spec.rank, words, s.rows);
          run_product<V, kPairs, false>({.rows = values,
                                         .columns = columns,
                                         .depth = words,
                                         .a = s.rows,
                                         .a_stride = words,
                                         .b = s.across,
                                         .b_stride = kTile,
                                         .c = s.sums,
                                         .c_stride = kTile,
                                         .store = Store::scaled});
        }
        for (std::int64_t i = 0; i < count; ++i) {
          float row[kTile];
          for (std::int64_t v = 0; v < values; ++v)
            row[v] =
                by_dots ? Rows::dot(s.tokens.row[v], o.row[i], spec.rank) : s.sums[v * kTile + i];
          Ops::store_row(reinterpret_cast<const Word*>(row), values,
                         y + c.in_call(r + i, head, spec.v_dim) + j);
        }
      }
    }
  }
};

}  // namespace
}  // namespace lamina::cpu
