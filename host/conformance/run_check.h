// Runs a check in this process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "conformance/result.h"
#include "conformance/subject.h"

namespace lamina::conformance {

// Loads the plugin where the check needs it. What the plugin does wrong is in the result.
Result run_check(const Check& check, const PluginSubject& plugin);

// Likewise on families that are there already, eg: made by a test. `several`: texts name the
// family.
Result run_check(const Check& check, const std::vector<const FamilySubject*>& families,
                 bool several);

}  // namespace lamina::conformance
