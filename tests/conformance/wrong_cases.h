// Models whose numbers are wrong in a way that no plugin can bring about: what the equalities of
// the host compare is made to differ, so that the checks are seen to compare it.
#pragma once

#include <ostream>
#include <string_view>
#include <vector>

#include "conformance/model_case.h"

namespace lamina::conformance {

struct WrongCase {
  std::string_view fault;
  std::string_view caught_by;
  void (*spoil)(ModelCase& c);
  std::vector<void (*)(const ModelCase&)> checks;  // of `caught_by`; each finds it

  friend std::ostream& operator<<(std::ostream& out, const WrongCase& c) { return out << c.fault; }
};

std::vector<WrongCase> wrong_cases();

}  // namespace lamina::conformance
