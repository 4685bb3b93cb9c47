// Results as lines for people.
#pragma once

#include <string>

#include "conformance/result.h"
#include "conformance/subject.h"

namespace lamina::conformance {

// One line; that of a check which failed names the rules and how to see it again. `color`: with
// escape sequences of a terminal.
std::string result_text(const Result& result, const PluginSubject& plugin, bool color);

// Whether the plugin conforms, and the checks that failed or were skipped.
std::string verdict_text(const Summary& summary, const PluginSubject& plugin);

}  // namespace lamina::conformance
