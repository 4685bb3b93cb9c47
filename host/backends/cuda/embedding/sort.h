// A stable sort of integers, with the place of each, on the device.
//
//   StableSort sort(context, num_ids, num_rows);
//   sort.run(args, {.keys = ids, .sorted_keys = keys, .sorted_places = places}, workspace);
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/embedding/sort_params.h"
#include "backends/cuda/launch.h"

namespace lamina::cuda {

class StableSort {
 public:
  static constexpr std::int64_t kMaxCount = std::int64_t{1} << 30;

  // Sorts `count` keys in [0, limit]. REQUIRES: 0 <= count <= kMaxCount, limit < 2^31.
  StableSort(Context& context, std::int64_t count, std::int64_t limit);

  // Device memory; see SortParams.
  struct Memory {
    gpu::Address keys;           // i32[count]; keys outside of [0, limit) count as `limit`
    gpu::Address sorted_keys;    // i32[count]; null: not wanted
    gpu::Address sorted_places;  // i32[count]: the places of the keys, in order
    gpu::Address starts = {};  // i32[limit + 1]; null: not wanted. The first position of each key.
  };
  // Launches nothing if there are no keys. The memory for results must not overlap other memory.
  void run(const KernelArgs& args, const Memory& memory, std::byte* workspace) const;
  std::size_t workspace_bytes() const;

 private:
  void run_pass(const KernelArgs& args, SortParams p) const;
  std::byte* at(std::byte* workspace, int list) const;

  Function count_, offsets_, scatter_, tile_, starts_;
  std::int64_t num_keys_, limit_, tiles_;
  int bits_;    // of a key
  int passes_;  // with at most kMaxSortBits each
};

}  // namespace lamina::cuda
