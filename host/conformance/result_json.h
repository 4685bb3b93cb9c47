// Results as JSON: what `lamina plugin check --json` prints, and how a process of its own hands its
// result back. docs/plugin_check.md describes the object.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "conformance/result.h"
#include "conformance/subject.h"

namespace lamina::conformance {

std::string results_json(std::span<const Result> results, const PluginSubject& plugin);

// The result of `check` out of that text; nothing where it is not all there.
std::optional<Result> read_result(const std::string& json, const Check& check);

}  // namespace lamina::conformance
