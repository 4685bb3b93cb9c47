// Counts the pairs of tokens in attention, which determine the cost of its products.
#pragma once

#include <cstdint>

namespace lamina::ops {

// Visibility of keys for the queries of a row.
struct Visibility {
  bool causal = true;
  std::int64_t keys = 0;               // number of keys, for queries that see all of them
  std::int64_t window = 0, chunk = 0;  // 0 = none
  std::int64_t max_keys = 0;           // maximum per query; 0 = all visible keys
};

// Returns the pairs (query, key) of one row whose queries are at start, start + 1, ...
double attended_pairs(const Visibility& seen, std::int64_t start, std::int64_t queries);

// Returns the pairs of a query and a window of `ratio` tokens that has ended before it; with
// max_windows (0 = all) at most that many per query.
double ended_windows(std::int64_t ratio, std::int64_t max_windows, std::int64_t start,
                     std::int64_t queries);

}  // namespace lamina::ops
