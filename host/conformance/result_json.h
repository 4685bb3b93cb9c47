// Results as JSON: the output of `lamina plugin check --json`, and the way in which a separate
// process returns its result. docs/plugin_check.md describes the object.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "conformance/result.h"
#include "conformance/subjects/subject.h"

namespace lamina::conformance {

std::string results_json(std::span<const Result> results, const PluginSubject& plugin);

// The result of `check` in that text; nothing if it is incomplete.
std::optional<Result> read_result(const std::string& json, const Check& check);

}  // namespace lamina::conformance
