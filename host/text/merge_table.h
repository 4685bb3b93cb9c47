// The merges of pairs of neighbouring tokens.
#pragma once

#include <bit>
#include <cstdint>

#include "core/huge_pages.h"
#include "text/bpe_merges.h"

namespace lamina::text {

// A hash table keyed by pairs of ids, with open addressing and slots that can be prefetched; see
// HashIndex.
class MergeTable {
 public:
  MergeTable() : MergeTable(0) {}
  explicit MergeTable(std::size_t max_merges)
      : shift_(64 - std::bit_width(max_merges + max_merges / 2 + 1)),
        slots_(std::size_t{1} << (64 - shift_)) {}

  void prefetch(TokenId left, TokenId right) const {
    __builtin_prefetch(&slots_[place(pair_of(left, right))]);
  }
  FoundMerge find(TokenId left, TokenId right) const {
    const Slot& slot = slots_[slot_of(pair_of(left, right))];
    return {slot.rank, slot.result};
  }
  // Replaces an earlier merge of the two. REQUIRES: no id is negative; fewer than max_merges other
  // pairs are stored.
  void set(TokenId left, TokenId right, FoundMerge merge) {
    const std::uint64_t pair = pair_of(left, right);
    slots_[slot_of(pair)] = {pair, merge.rank, merge.result};
  }
  // Calls `use(left, right)` for each, in no order.
  template <typename Use>
  void for_each(const Use& use) const {
    for (const Slot& slot : slots_)
      if (slot.pair != kNoPair)
        use(static_cast<TokenId>(slot.pair >> 32), static_cast<TokenId>(slot.pair));
  }

 private:
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t pair = kNoPair;
    std::uint32_t rank = FoundMerge::kNone;
    TokenId result = 0;
  };

  static std::uint64_t pair_of(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  std::size_t place(std::uint64_t pair) const {
    pair ^= pair >> 32;
    return (pair * 0x9e3779b97f4a7c15U) >> shift_;
  }
  // The slot of the pair, or the empty slot for it.
  std::size_t slot_of(std::uint64_t pair) const {
    std::size_t i = place(pair);
    while (slots_[i].pair != pair && slots_[i].pair != kNoPair) i = (i + 1) & (slots_.size() - 1);
    return i;
  }

  int shift_;
  LargeVector<Slot> slots_;
};

}  // namespace lamina::text
