// The values of a stored weight, as they are read and through its blocks.
#pragma once

#include <cstddef>
#include <vector>

#include "io/stored_weight.h"

namespace lamina::testing {

inline std::vector<float> all_values(const io::StoredWeight& weight) {
  std::vector<float> out(static_cast<std::size_t>(weight.shape().num_elements()));
  weight.decode(0, 1, out);
  return out;
}

// REQUIRES: the weight has a block format.
inline std::vector<float> all_values_of_blocks(const io::StoredWeight& weight) {
  const formats::BlockFormat& format = *weight.block_format();
  const std::int64_t count = weight.shape().num_elements(), columns = weight.shape()[-1];
  std::vector<std::byte> blocks(static_cast<std::size_t>(format.bytes_of(count)));
  for (std::int64_t at = 0; at < count; at += columns)
    weight.read_blocks(at, columns, blocks.data() + format.bytes_of(at));
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; i += format.num_values)
    format.widen(blocks.data() + format.bytes_of(i), out.data() + i);
  return out;
}

}  // namespace lamina::testing
