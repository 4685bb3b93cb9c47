#include "conformance/result.h"

#include <algorithm>

namespace lamina::conformance {

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::pass:
      return "pass";
    case Outcome::fail:
      return "fail";
    case Outcome::crash:
      return "crash";
    case Outcome::timeout:
      return "timeout";
    case Outcome::skip:
      return "skip";
  }
  return "";
}

Summary summary_of(std::span<const Result> results) {
  Summary out;
  bool blocked = false;
  for (const Result& result : results) {
    blocked = blocked || result.blocked;
    if (result.outcome == Outcome::pass)
      ++out.passed;
    else
      (result.outcome == Outcome::skip ? out.skipped : out.failed).push_back(result.check->id);
  }
  out.conforms = out.failed.empty() && !blocked;
  return out;
}

}  // namespace lamina::conformance
