// What `lamina verify` found: a row per quantity.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace lamina::inspect {

struct VerifyRow {
  std::string quantity;  // "logits", "grad.model.norm.weight"
  double error = 0;      // as `tolerance` is meant: absolute, or relative to the largest magnitude
  double tolerance = 0;
  std::string note;                                   // what else to know; why it failed
  bool passed() const { return error <= tolerance; }  // a NaN fails
};

// A quantity of the case that was not computed, and why none of ours is like it; no reason where
// one should be.
struct SkippedQuantity {
  std::string quantity, reason;
};

struct VerifyReport {
  std::string directory;
  std::vector<VerifyRow> rows;
  std::vector<SkippedQuantity> skipped;
  std::vector<std::string> unread;  // keys of config.json that nothing reads, see ModelConfig
  std::string first_departure;      // the first layer whose hidden state is off; may be empty
  // Every row passed, and whatever was skipped has a reason.
  bool passed() const;
};

// Largest |a - b|; infinite when sizes differ or something is not a number.
double max_abs_difference(std::span<const float> a, std::span<const float> b);
double max_abs(std::span<const float> a);

}  // namespace lamina::inspect
