// Compares the tensors of two checkpoints, by their names in the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/weight_files.h"

namespace lamina::weights {

struct TensorDifference {
  std::string name;
  // The type and shape in the file; for blocks, packed weights and FP4 with scales their format,
  // eg "Q8_0", "packed int4" or "mxfp4", and the shape of their values.
  struct Form {
    std::string type;
    Shape shape;
  };
  // Absent if the file does not have it.
  std::optional<Form> a = {}, b = {};
  // Differences of values, if the shapes are equal and both have values that can be read; a NaN on
  // one side only is an infinite difference.
  struct Values {
    std::int64_t num_different = 0;
    double largest = 0;   // max |a - b|
    double relative = 0;  // largest / max |a|; infinite where a is zero
  };
  std::optional<Values> values = {};
  // Different tensors of a weight that is packed in both, eg: "m.weight_scale", "m.weight_g_idx
  // only in A"; "quantization_config" if equal tensors have other values because of it.
  std::vector<std::string> parts = {};
};

struct Differences {
  // Same name, type, shape and bytes; equal values, if the files have rows in different orders, or
  // different settings for a packed weight.
  std::int64_t num_identical = 0;
  std::vector<TensorDifference> tensors;  // the others: tensors of `a` in the order of its
                                          // files, then tensors that only `b` has
};

// Compares rows of queries and keys in the order of WeightFiles::unpair_rows(). A packed weight is
// compared as a whole, with all of its tensors; values in f8 and FP4 are multiplied by their
// scales, which are separate tensors, unless they do not fit. Errors: a tensor cannot be read.
Differences differences(const io::WeightFiles& a, const io::WeightFiles& b);

// Returns whether a name has the same bytes with the same meaning in both: one tensor, or all
// tensors of a packed weight. REQUIRES: both have it.
bool is_identical(const io::WeightFiles& a, const io::WeightFiles& b, std::string_view name);

}  // namespace lamina::weights
