// The result of `lamina verify`: a row per quantity.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace lamina::inspect {

struct VerifyRow {
  std::string quantity;  // "logits", "grad.model.norm.weight"
  double error = 0;      // as `tolerance`: absolute, or relative to the largest magnitude
  double tolerance = 0;
  std::string note;  // further information; the reason of a failure
  bool passed() const { return error <= tolerance; }  // a NaN fails
};

// A quantity of the case that was not computed, and the reason why we have none like it; no reason
// if we should have one.
struct SkippedQuantity {
  std::string quantity, reason;
  std::vector<std::string> tags = {};  // values of the layer with one of these would be compared
};

// A compute type in which the model's graphs do not build, and the reason.
struct UnbuiltType {
  DType dtype;
  std::string reason;
};

struct VerifyReport {
  std::string directory;
  std::vector<VerifyRow> rows;
  std::vector<SkippedQuantity> skipped;
  std::vector<UnbuiltType> unbuilt;
  std::vector<std::string> unread;  // unused keys of config.json, see ModelConfig
  std::string first_departure;      // the first layer whose hidden state differs; may be empty
  // True if every row passed, every skipped quantity has a reason, and graphs build in all types of
  // runs: float64 is the type of checks only.
  bool passed() const;
};

// Largest |a - b|; infinite if the sizes differ or a value is NaN.
double max_abs_difference(std::span<const float> a, std::span<const float> b);
double max_abs(std::span<const float> a);

}  // namespace lamina::inspect
