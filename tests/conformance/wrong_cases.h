// Models with wrong numbers that no plugin can cause: the quantities that the equalities compare
// are made to differ, to test that the checks compare them.
#pragma once

#include <ostream>
#include <string_view>
#include <vector>

#include "conformance/subjects/model_case.h"

namespace lamina::conformance {

struct WrongCase {
  std::string_view fault;
  std::string_view caught_by;
  void (*spoil)(ModelCase& c);
  std::vector<void (*)(const ModelCase&)> checks;  // for `caught_by`; each check finds the fault

  friend std::ostream& operator<<(std::ostream& out, const WrongCase& c) { return out << c.fault; }
};

std::vector<WrongCase> wrong_cases();

}  // namespace lamina::conformance
