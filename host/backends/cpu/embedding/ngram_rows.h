// The hash of the n-grams that end at a token, as rows of one table with all heads' tables behind
// each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/kernel_support.h"

namespace lamina::cpu {

class NgramRows {
 public:
  explicit NgramRows(const NodeView& n)
      : multipliers_(n.list("multipliers")), sizes_(n.list("sizes")) {
    std::int64_t offset = 0;
    for (std::int64_t size : sizes_) {
      offsets_.push_back(offset);
      offset += size;
    }
  }

  // Tokens in an n-gram of the highest order, and rows per token.
  std::int64_t length() const { return static_cast<std::int64_t>(multipliers_.size()); }
  std::int64_t heads() const { return static_cast<std::int64_t>(sizes_.size()); }

  // `id(j)` is the compressed id j tokens back.
  template <typename Id>
  void operator()(Id id, std::int32_t* rows) const {
    const std::size_t per_order = sizes_.size() / (multipliers_.size() - 1);
    std::int32_t hash = product(id(0), 0);
    for (std::size_t j = 1, head = 0; j < multipliers_.size(); ++j) {
      hash ^= product(id(static_cast<std::int64_t>(j)), j);
      for (std::size_t h = 0; h < per_order; ++h, ++head) {
        // Ids that are no tokens are negative and may make the hash so: the remainder never is.
        std::int64_t row = hash % sizes_[head];
        rows[head] = static_cast<std::int32_t>(offsets_[head] + row + (row < 0 ? sizes_[head] : 0));
      }
    }
  }

 private:
  // Wraps, as 32-bit integers do where the reference runs.
  std::int32_t product(std::int32_t id, std::size_t j) const {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(id) *
                                     static_cast<std::uint32_t>(multipliers_[j]));
  }

  std::vector<std::int64_t> multipliers_, sizes_, offsets_;
};

// The compressed id of a token: ids below 0 pass, ids past the table's end count as its last row.
inline std::int32_t compressed_id(std::span<const std::int32_t> table, std::int32_t token) {
  if (token < 0 || table.empty()) return token;
  return table[std::min(static_cast<std::size_t>(token), table.size() - 1)];
}

}  // namespace lamina::cpu
