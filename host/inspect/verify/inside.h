// Compares values inside layers: quantities of golden cases and the corresponding tags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "inspect/verify/case.h"
#include "program/records.h"

namespace lamina::inspect {

// The tags (names.h) that the case's quantities need.
std::vector<std::string> tags_of(const GoldenCase& c);

// The tags of the values that a quantity may be compared with; empty for quantities outside layers.
std::vector<std::string> tags_of(std::string_view quantity);

struct Comparison {
  std::string quantity;
  double error = 0, tolerance = 0;
  std::string note;
  bool follows_choice = false;  // choice of experts or keys: all or nothing
};

// One comparison per quantity of the case for which `records` contain values.
std::vector<Comparison> compare_inside(const GoldenCase& c, const program::LayerRecords& records);

}  // namespace lamina::inspect
