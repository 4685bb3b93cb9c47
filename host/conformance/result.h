// What a check gave, and what all of them together mean.
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
  std::string text = {};     // what was found, or why there is nothing to check
  bool blocked = false;      // skipped because of what another check reports
  std::uint64_t digest = 0;  // what another process must find too
  double seconds = 0;
};

struct Summary {
  int passed = 0;
  std::vector<std::string_view> failed, skipped;  // ids
  bool conforms = false;  // no check failed, and none was kept from running by another's finding
};

Summary summary_of(std::span<const Result> results);

}  // namespace lamina::conformance
