// A low-rank adapter of some matrices of a model (Hu et al. 2021). Where `linear` reads one of
// them,
//   y = x w^T + scale (dropout(x) a^T) b^T,  a[rank, inputs], b[outputs, rank].
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lamina::decoder {

struct Adapter {
  std::int64_t rank = 1;
  double scale = 1;
  double dropout = 0;  // of x, in training
  // Block and name of each matrix, in all of its layers.
  std::vector<std::pair<std::uint32_t, std::string>> targets;
  bool all =
      false;  // the targets are whatever there may be: those that `linear` does not read stay
  bool operator==(const Adapter&) const = default;
};

}  // namespace lamina::decoder
