// One small model per family, with scanned and unrolled layers, for parameterised tests.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "support/goldens.h"
#include "support/models.h"

namespace lamina::testing {

struct FamilyCase {
  TestModel model;
  bool scan = true;

  friend std::ostream& operator<<(std::ostream& out, const FamilyCase& c) {
    return out << c.model << (c.scan ? "" : " unrolled");
  }
};

inline std::vector<FamilyCase> family_cases() {
  std::vector<FamilyCase> out;
  for (const TestModel& model : one_model_of_each_family())
    for (const bool scan : {true, false}) out.push_back({model, scan});
  return out;
}

inline std::string family_case_name(const ::testing::TestParamInfo<FamilyCase>& test) {
  return test_name(test.param.model.name) + (test.param.scan ? "" : "_unrolled");
}

}  // namespace lamina::testing
