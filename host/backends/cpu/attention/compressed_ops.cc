// compressed_attention_step: reads only the slots that tokens see, so that its cost does not depend
// on the number of slots. For one token they are gathered; several tokens share the slots up to the
// last entry, with a mask.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/attention/best_keys.h"
#include "backends/cpu/attention/inputs.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/threads/scratch.h"
#include "backends/cpu/threads/threads.h"

namespace lamina::cpu {
namespace {

namespace in = operand::compressed_attention_step;

class CompressedAttentionStep final : public Kernel {
 public:
  explicit CompressedAttentionStep(const NodeView& n)
      : dtype_(n.type(in::kQ).dtype),
        sinks_dtype_(sinks_dtype(n, in::kSinks)),
        batch_(n.type(in::kQ).dim(0)),
        tokens_(n.type(in::kQ).dim(1)),
        heads_(n.type(in::kQ).dim(2)),
        width_(n.type(in::kQ).dim(3)),
        ring_(n.i("ring")),
        entries_(n.type(in::kCache).dim(1) - ring_),
        window_(n.i("window")),
        ratio_(n.i("ratio")),
        k_(n.has(in::kScores) ? n.i("k") : entries_),
        scale_(n.f("scale") != 0 ? n.f("scale") : 1 / std::sqrt(static_cast<double>(width_))),
        soft_cap_(n.f("soft_cap")) {}

  std::size_t workspace_bytes() const override {
    Arena dry(nullptr);
    take_memory(dry);
    return static_cast<std::size_t>(dry.used_bytes()) +
           attention_cached_workspace_bytes(spec(max_rows()));
  }

  void run(const KernelArgs& args) override {
    Arena arena(args.workspace);
    const Memory memory = take_memory(arena);
    AttentionForwardArgs forward{
        .q = {args.inputs[in::kQ], contiguous_strides(tokens_, heads_, width_)},
        .sinks = args.inputs[in::kSinks],
        .sinks_dtype = sinks_dtype_,
        .o = {args.outputs[0], contiguous_strides(tokens_, heads_, width_)}};
    const std::int64_t keys =
        gathers() ? gather(args, memory, forward) : mask(args, memory, forward);
    forward.v = forward.k;
    attention_cached(spec(keys), forward, {.starts = memory.last},
                     args.workspace + arena.used_bytes());
  }

 private:
  bool gathers() const { return tokens_ == 1; }
  // Maximum number of slots that are read per batch row.
  std::int64_t max_rows() const {
    return gathers() ? std::min(window_, ring_) + std::min(k_, entries_) : ring_ + entries_;
  }
  struct Memory {
    // The form that attention_cached expects: the last key of a batch row is at this + tokens - 1.
    std::int32_t* last;   // [batch]
    float* scratch;       // [threads, entries]
    std::int32_t* slots;  // gathers: [batch, max_rows]
    std::byte* rows;      // gathers: [batch, max_rows, width]
    std::uint8_t* mask;   // else: [batch, tokens, max_rows]
  };
  Memory take_memory(Arena& arena) const {
    const std::int64_t rows = batch_ * max_rows();
    Memory m = {};
    m.last = arena.take<std::int32_t>(batch_);
    m.scratch = arena.take<float>(num_threads() * entries_);
    if (gathers()) {
      m.slots = arena.take<std::int32_t>(rows);
      m.rows = arena.take<std::byte>(rows * width_ * size_bytes(dtype_));
    } else {
      m.mask = arena.take<std::uint8_t>(rows * tokens_);
    }
    return m;
  }

  AttentionSpec spec(std::int64_t keys) const {
    return {.dtype = dtype_,
            .batch = batch_,
            .q_tokens = tokens_,
            .kv_tokens = keys,
            .heads = heads_,
            .kv_heads = 1,
            .qk_dim = width_,
            .v_dim = width_,
            .scale = scale_,
            .soft_cap = soft_cap_,
            .causal = false};
  }

  // Number of entries whose windows have ended at `position`.
  std::int64_t ended(std::int64_t position) const {
    return std::min((position + 1) / ratio_, entries_);
  }
  // Calls keep(entry) for the entries that token t of batch row b, at `position`, sees.
  template <class Keep>
  void for_entries(const KernelArgs& args, std::int64_t b, std::int64_t t, std::int64_t position,
                   float* scratch, Keep keep) const {
    const auto* scores = static_cast<const float*>(args.inputs[in::kScores]);
    const std::int64_t count = ended(position);
    if (scores == nullptr || count <= k_) {
      for (std::int64_t e = 0; e < count; ++e) keep(e);
      return;
    }
    for_best_keys(
        scores + (b * tokens_ + t) * entries_, count, k_, scratch,
        [](std::int64_t) { return true; }, keep);
  }

  // Copies the rows that each batch row's token sees, one after the other. Returns the largest
  // number of rows in a batch row.
  std::int64_t gather(const KernelArgs& args, const Memory& memory,
                      AttentionForwardArgs& forward) const {
    const auto* starts = static_cast<const std::int32_t*>(args.inputs[in::kStart]);
    std::int32_t *slots = memory.slots, *last = memory.last;
    const std::int64_t stride = max_rows();
    parallel_tasks(batch_, [&](std::int64_t b, int thread) {
      std::int32_t* to = slots + b * stride;
      std::int32_t count = 0;
      const std::int64_t position = starts[b];
      for (std::int64_t p = std::max<std::int64_t>(0, position - window_ + 1); p <= position; ++p)
        to[count++] = static_cast<std::int32_t>(p % ring_);
      for_entries(args, b, 0, position, memory.scratch + thread * entries_,
                  [&](std::int64_t e) { to[count++] = static_cast<std::int32_t>(ring_ + e); });
      last[b] = count - 1;
    });
    const std::int64_t keys = *std::max_element(last, last + batch_) + 1;
    const std::int64_t row_bytes = width_ * size_bytes(dtype_), all = ring_ + entries_;
    std::byte* rows = memory.rows;
    const std::int64_t at_once = 1 + kMinCopyBytes / row_bytes;
    parallel_ranges(batch_ * keys, at_once, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t b = i / keys, key = i % keys;
        if (key > last[b]) continue;
        std::memcpy(
            rows + i * row_bytes,
            at_byte(args.inputs[in::kCache], (b * all + slots[b * stride + key]) * row_bytes),
            static_cast<std::size_t>(row_bytes));
      }
    });
    forward.k = {rows, contiguous_strides(keys, 1, width_)};
    return keys;
  }

  // Sets the mask of the slots that each token sees, up to the last entry. Returns the largest
  // number of slots of a batch row.
  std::int64_t mask(const KernelArgs& args, const Memory& memory,
                    AttentionForwardArgs& forward) const {
    const auto* starts = static_cast<const std::int32_t*>(args.inputs[in::kStart]);
    std::int32_t* last = memory.last;
    std::int64_t keys = 0;
    for (std::int64_t b = 0; b < batch_; ++b) {
      const std::int64_t count = ring_ + ended(starts[b] + tokens_ - 1);
      last[b] = static_cast<std::int32_t>(count - tokens_);
      keys = std::max(keys, count);
    }
    std::uint8_t* kept = memory.mask;
    parallel_tasks(batch_ * tokens_, [&](std::int64_t row, int thread) {
      const std::int64_t b = row / tokens_, t = row % tokens_, position = starts[b] + t;
      std::uint8_t* to = kept + row * keys;
      std::fill_n(to, keys, std::uint8_t{0});
      for (std::int64_t p = std::max<std::int64_t>(0, position - window_ + 1); p <= position; ++p)
        to[p % ring_] = 1;
      for_entries(args, b, t, position, memory.scratch + thread * entries_,
                  [&](std::int64_t e) { to[ring_ + e] = 1; });
    });
    forward.masks.keep = kept;
    forward.k = {args.inputs[in::kCache],
                 {.batch = (ring_ + entries_) * width_, .token = width_, .head = 0}};
    return keys;
  }

  DType dtype_, sinks_dtype_;
  std::int64_t batch_, tokens_, heads_, width_, ring_, entries_, window_, ratio_, k_;
  double scale_, soft_cap_;
};

Verdict supports(const NodeView& n) {
  if (n.type(in::kCache).dtype != n.type(in::kQ).dtype)
    return Verdict::no("takes a cache of the type of q, got " + to_string(n.type(in::kCache)));
  if (n.has(in::kScores) && n.type(in::kScores).dtype != DType::f32)
    return Verdict::no("takes scores in f32, got " + to_string(n.type(in::kScores)));
  if (n.type(in::kQ).dim(0) == 0 || n.type(in::kQ).dim(1) == 0)
    return Verdict::no("takes some tokens");
  if (n.i("ring") < n.type(in::kQ).dim(1))
    return Verdict::no("takes a ring with room for the call");
  return only_f32_and_bf16(n);
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return std::make_unique<CompressedAttentionStep>(n);
}

constexpr KernelChoice kChoices[] = {{"seen slots", supports, make}};

constexpr OpKernels kOps[] = {
    {"compressed_attention_step", kChoices},
};

}  // namespace

KernelTable compressed_kernels() { return kOps; }

}  // namespace lamina::cpu
