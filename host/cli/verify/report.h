// What `lamina verify` found: a row a quantity.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace lamina::cli {

struct VerifyRow {
  std::string quantity;  // "logits", "grad.model.norm.weight"
  double error = 0;      // as `tolerance` is meant: absolute, or relative to the largest magnitude
  double tolerance = 0;
  std::string note;                                   // what else to know; why it failed
  bool passed() const { return error <= tolerance; }  // a NaN fails
};

struct VerifyReport {
  std::string directory;
  std::vector<VerifyRow> rows;
  std::vector<std::string> skipped;  // quantities of the case that were not computed, and why
  std::string first_departure;       // the first layer whose hidden state is off; may be empty
  bool passed() const;
};

// Largest |a - b|; infinite when sizes differ or something is not a number.
double max_abs_difference(std::span<const float> a, std::span<const float> b);
double max_abs(std::span<const float> a);

}  // namespace lamina::cli
