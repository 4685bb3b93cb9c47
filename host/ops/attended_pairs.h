// How many pairs of tokens attention looks at: what its products are counted by.
#pragma once

#include <cstdint>

namespace lamina::ops {

// Which keys the queries of a row see.
struct Visibility {
  bool causal = true;
  std::int64_t keys = 0;               // that there are, for queries that see all of them
  std::int64_t window = 0, chunk = 0;  // 0 = without
  std::int64_t max_keys = 0;           // that a query may use; 0 = all it sees
};

// Pairs (query, key) of one row whose queries are at start, start + 1, ...
double attended_pairs(const Visibility& seen, std::int64_t start, std::int64_t queries);

// Pairs of a query with the windows of `ratio` tokens that have ended by then; with max_windows
// (0 = all) at most that many per query.
double ended_windows(std::int64_t ratio, std::int64_t max_windows, std::int64_t start,
                     std::int64_t queries);

}  // namespace lamina::ops
