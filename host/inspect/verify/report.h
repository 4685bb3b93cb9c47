// The result of `lamina verify`: a row per quantity.
#pragma once

#include <span>
#include <string>
#include <vector>

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
};

struct VerifyReport {
  std::string directory;
  std::vector<VerifyRow> rows;
  std::vector<SkippedQuantity> skipped;
  std::vector<std::string> unread;  // unused keys of config.json, see ModelConfig
  std::string first_departure;      // the first layer whose hidden state differs; may be empty
  // True if every row passed and every skipped quantity has a reason.
  bool passed() const;
};

// Largest |a - b|; infinite if the sizes differ or a value is NaN.
double max_abs_difference(std::span<const float> a, std::span<const float> b);
double max_abs(std::span<const float> a);

}  // namespace lamina::inspect
