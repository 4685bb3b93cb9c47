#include "ops/ngrams.h"

#include <algorithm>

namespace lamina::ops {

Type ngram_rows_type(const Call& c, const Type& tokens, int table) {
  c.require_ndim(table, 1);
  c.require_dtype(table, DType::i32);
  auto orders = static_cast<std::int64_t>(c.list("multipliers").size()) - 1;
  const std::vector<std::int64_t>& sizes = c.list("sizes");
  auto heads = static_cast<std::int64_t>(sizes.size());
  c.require(orders >= 1, "{} multipliers define no n-gram; expected at least 2", orders + 1);
  c.require(heads > 0 && heads % orders == 0,
            "{} tables cannot be divided among {} orders of n-grams", heads, orders);
  c.require(std::ranges::all_of(sizes, [](std::int64_t size) { return size > 0; }),
            "every table must have at least one row");
  return {DType::i32, {tokens.dim(0), tokens.dim(1), heads}, {}};
}

}  // namespace lamina::ops
