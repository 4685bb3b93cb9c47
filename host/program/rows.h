// Rows of tokens, ready to be bound, each with the following token as label.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program/microbatch.h"

namespace lamina::program {

struct Rows {
  std::int64_t batch = 0, tokens = 0;
  std::vector<std::int32_t> ids, labels, positions, segments;  // [batch, tokens]

  // True if a row has several documents, or padding.
  bool packed() const;
  // Returns the rows from `first_row` on, borrowed from this object.
  Microbatch microbatch(std::int64_t first_row = 0) const {
    const std::int64_t at = first_row * tokens;
    return {ids.data() + at, labels.data() + at, positions.data() + at, segments.data() + at};
  }
};

// Makes rows of one document each. `unshifted`: per token, the label of the token itself; -100: not
// counted.
Rows rows_of(std::vector<std::int32_t> ids, std::span<const std::int32_t> unshifted,
             std::int64_t batch, std::int64_t tokens);

}  // namespace lamina::program
