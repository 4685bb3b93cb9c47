// Slots of a cache that the tokens of a call are written to.
#pragma once

#include <cstdint>

namespace lamina::cuda {

// Part [first, first + slots) of the slots of a cache; a ring: slot s is slot s modulo `slots`.
struct CacheSlots {
  std::int64_t capacity, first, slots;
  bool ring;
};

}  // namespace lamina::cuda
