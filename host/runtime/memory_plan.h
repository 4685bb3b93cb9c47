// Plans the places of a program's temporaries in its arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lamina {

// A block of memory needed from step `first` to step `last`, both included.
struct Lifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  // one per lifetime, multiples of 64
  std::size_t arena_bytes = 0;
  // Sum of the blocks alive at the worst step: no plan can be smaller.
  std::size_t lower_bound_bytes = 0;
};

// Sets the offset of every block so that blocks alive together do not overlap: largest first, each
// in the lowest gap that fits (Pisarchyk & Lee 2020, "greedy by size"). Zero-sized blocks get
// offset 0.
MemoryPlan plan_memory(std::span<const Lifetime> lifetimes);

}  // namespace lamina
