// Runs a check in this process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "conformance/result.h"
#include "conformance/subjects/subject.h"

namespace lamina::conformance {

// Loads the plugin if the check needs it. Errors of the plugin are in the result.
Result run_check(const Check& check, const PluginSubject& plugin);

// Likewise for existing families, eg made by a test. `several`: texts name the family.
Result run_check(const Check& check, const std::vector<const FamilySubject*>& families,
                 bool several);

}  // namespace lamina::conformance
