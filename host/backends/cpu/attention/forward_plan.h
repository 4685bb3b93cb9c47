// The division of a forward pass of attention into tasks. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/tiles.h"

namespace lamina::cpu {
namespace {

// Depends only on the shape.
struct ForwardPlan {
  Sizes sizes;
  std::int64_t blocks_per_task, tasks_per_head;  // of a (batch row, key head)
  std::int64_t splits, keys_per_split;           // if splits > 1, partial results are merged later
};

constexpr std::int64_t kMaxBlocksPerTask = 4;
constexpr std::int64_t kKeysPerSplit = 512;
constexpr std::int64_t kLatentTasks = 32;

inline ForwardPlan forward_plan(const AttentionSpec& spec, bool cached, bool pairs) {
  ForwardPlan p{};
  p.sizes = sizes_of(spec, pairs);
  const std::int64_t heads = spec.batch * spec.kv_heads;
  // Several blocks share the copies of a tile of keys; fewer blocks if there would be too few
  // tasks.
  p.blocks_per_task = kMaxBlocksPerTask;
  while (p.blocks_per_task > 1 && heads * divide_up(p.sizes.blocks, p.blocks_per_task) < 32)
    p.blocks_per_task /= 2;
  p.tasks_per_head = divide_up(p.sizes.blocks, p.blocks_per_task);
  p.keys_per_split = max(spec.kv_tokens, 1);
  if (spec.k_tail_dim > 0) {  // one key head for many rows: they share each key that is read
    p.blocks_per_task = min(p.sizes.blocks, kMaxBlocksPerTask);
    p.tasks_per_head = divide_up(p.sizes.blocks, max(p.blocks_per_task, 1));
    p.splits = min(divide_up(kLatentTasks, max(heads * p.tasks_per_head, 1)),
                   divide_up(spec.kv_tokens, kKeysPerSplit / 2));
    p.splits = max(1, p.splits);
    return p;
  }
  if (cached && p.sizes.blocks == 1) p.keys_per_split = kKeysPerSplit;
  p.splits = max(1, divide_up(spec.kv_tokens, p.keys_per_split));
  return p;
}

// Returns the number of keys per split of a batch row that has num_keys.
inline std::int64_t keys_per_split(const AttentionSpec& spec, const ForwardPlan& plan,
                                   std::int64_t num_keys) {
  return spec.k_tail_dim > 0 ? round_up(divide_up(num_keys, plan.splits), kTile)
                             : plan.keys_per_split;
}

}  // namespace
}  // namespace lamina::cpu
