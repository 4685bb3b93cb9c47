// Compares the tensors of two checkpoints, by their names in the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/weight_files.h"

namespace lamina::weights {

struct TensorDifference {
  std::string name;
  // As in the files; absent if the file does not have it.
  std::optional<io::TensorSpec> a, b;
  // Differences of values, if the shapes are equal and both types have values; a NaN on one side
  // only is an infinite difference.
  struct Values {
    std::int64_t num_different = 0;
    double largest = 0;   // max |a - b|
    double relative = 0;  // largest / max |a|; infinite where a is zero
  };
  std::optional<Values> values;
};

struct Differences {
  // Same name, type, shape and bytes; equal values, if the files have rows in different orders.
  std::int64_t num_identical = 0;
  std::vector<TensorDifference> tensors;  // the others: tensors of `a` in the order of its
                                          // files, then tensors that only `b` has
};

// Compares rows of queries and keys in the order of WeightFiles::unpair_rows(). Errors: a tensor
// cannot be read.
Differences differences(const io::WeightFiles& a, const io::WeightFiles& b);

}  // namespace lamina::weights
