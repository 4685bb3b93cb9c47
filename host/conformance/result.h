// The result of a check, and the summary of all.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/check.h"

namespace lamina::conformance {

enum class Outcome { pass, fail, crash, timeout, skip };
std::string_view name(Outcome outcome);

struct Result {
  const Check* check = nullptr;
  Outcome outcome = Outcome::pass;
  std::string text = {};     // the finding, or the reason why there is nothing to check
  bool blocked = false;      // skipped because of another check's finding
  std::uint64_t digest = 0;  // must be the same in another process
  double seconds = 0;
};

struct Summary {
  int passed = 0;
  std::vector<std::string_view> failed, skipped;  // ids
  bool conforms = false;  // no check failed, and none was blocked by another's finding
};

Summary summary_of(std::span<const Result> results);

}  // namespace lamina::conformance
