// How the tensors of two checkpoints differ, by their names in the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/weight_files.h"

namespace lamina::weights {

struct TensorDifference {
  std::string name;
  // As the files have it; nothing in the one that lacks it.
  std::optional<io::TensorSpec> a, b;
  // Of values, where the shapes are equal and both types have values; NaN on one side alone is an
  // infinite difference.
  struct Values {
    std::int64_t num_different = 0;
    double largest = 0;   // max |a - b|
    double relative = 0;  // largest / max |a|; infinite where a is zero
  };
  std::optional<Values> values;
};

struct Differences {
  std::int64_t num_identical = 0;         // same name, type, shape and bytes
  std::vector<TensorDifference> tensors;  // the others: those of `a` in the order of its files,
                                          // then what only `b` has
};

// Errors: those of reading tensors.
Differences differences(const io::WeightFiles& a, const io::WeightFiles& b);

}  // namespace lamina::weights
