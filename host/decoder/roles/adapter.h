// A low-rank adapter of some matrices of a model (Hu et al. 2021). A `linear` that reads one of
// them computes
//   y = x w^T + scale (dropout(x) a^T) b^T,  a[rank, inputs], b[outputs, rank].
// With dora (Liu et al. 2024) the matrix is w + scale b a with rows of length m[outputs]:
//   y = x w^T + dropout(x) ((m / n - 1) w + m / n scale b a)^T,  n[i] = |row i of w + scale b a|.
// n has no gradient (section 4.3 there).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::decoder {

// A matrix, in all of its layers; or the matrices of all experts, [E, outputs, inputs], each with a
// separate adapter.
struct AdapterTarget {
  std::uint32_t block = 0;
  std::string name;
  // For rows of a matrix that is published as one with others: the first of these, whose `a` they
  // all use.
  std::string down_of = {};
  bool operator==(const AdapterTarget&) const = default;
};

struct Adapter {
  std::int64_t rank = 1;
  double scale = 1;
  double dropout = 0;  // of x, in training
  bool dora = false;
  std::vector<AdapterTarget> targets;
  bool all =
      false;  // the targets are whatever there may be: those that `linear` does not read stay
  bool operator==(const Adapter&) const = default;

  // Returns null if the matrix is no target.
  const AdapterTarget* find(std::uint32_t block, std::string_view name) const {
    for (const AdapterTarget& target : targets)
      if (target.block == block && target.name == name) return &target;
    return nullptr;
  }
};

}  // namespace lamina::decoder
