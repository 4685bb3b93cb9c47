// Results as lines for people.
#pragma once

#include <string>

#include "conformance/result.h"
#include "conformance/subjects/subject.h"

namespace lamina::conformance {

// One line; for a failed check it names the rules and the command to repeat it. `color`: with
// escape sequences of a terminal.
std::string result_text(const Result& result, const PluginSubject& plugin, bool color);

// The verdict, and the checks that failed or were skipped.
std::string verdict_text(const Summary& summary, const PluginSubject& plugin);

}  // namespace lamina::conformance
