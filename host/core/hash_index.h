// Finds items of a list by their hash.
#pragma once

#include <bit>
#include <cstdint>

#include "core/huge_pages.h"

namespace lamina {

// A hash table with open addressing that stores indices of items, not the items: eight bytes per
// slot. Unlike Boost's flat sets it can prefetch a slot, because most of the time for lists with
// hundreds of thousands of items is spent waiting for memory.
//   index.prefetch(hash); ..; if (index.find(hash, [&](int i) { return list[i] == x; }) < 0) ..
class HashIndex {
 public:
  explicit HashIndex(std::size_t max_items)
      : shift_(64 - std::bit_width(max_items + max_items / 2 + 1)),
        slots_(std::size_t{1} << (64 - shift_)) {}

  void prefetch(std::uint64_t hash) const { __builtin_prefetch(&slots_[hash >> shift_]); }
  // Returns the item with this hash for which `same(item)` is true, or -1.
  template <typename Same>
  std::int32_t find(std::uint64_t hash, const Same& same) const {
    return slots_[slot_of(hash, same)].item;
  }
  // Returns the existing equal item, or -1 after inserting `item`. REQUIRES: fewer than max_items
  // items.
  template <typename Same>
  std::int32_t insert(std::uint64_t hash, std::int32_t item, const Same& same) {
    Slot& slot = slots_[slot_of(hash, same)];
    if (slot.item >= 0) return slot.item;
    slot = {static_cast<std::uint32_t>(hash), item};
    return -1;
  }

 private:
  struct Slot {
    std::uint32_t tag = 0;  // of the hash, whose upper bits select the slot
    std::int32_t item = -1;
  };
  template <typename Same>
  std::size_t slot_of(std::uint64_t hash, const Same& same) const {
    const auto tag = static_cast<std::uint32_t>(hash);
    std::size_t i = hash >> shift_;
    while (slots_[i].item >= 0 && !(slots_[i].tag == tag && same(slots_[i].item)))
      i = (i + 1) & (slots_.size() - 1);
    return i;
  }

  int shift_;
  LargeVector<Slot> slots_;
};

}  // namespace lamina
