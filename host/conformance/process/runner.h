// Runs checks in separate processes: a plugin that crashes, hangs or takes all memory ends only its
// own check.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "conformance/result.h"
#include "conformance/subjects/subject.h"

namespace lamina::conformance {

// The words after the program's name that run one check as in its separate process.
std::vector<std::string> replay_words(const Check& check, const PluginSubject& plugin);

// Called as checks begin and end, in the order of the table: `done` is null at the beginning.
using CheckWatcher = std::function<void(const Check& check, const Result* done)>;

// Runs `checks`: checks of the file in this process and before all others, which are skipped if no
// host would load the file. `program` is lamina.
std::vector<Result> run_checks(std::span<const Check* const> checks, const PluginSubject& plugin,
                               const std::filesystem::path& program, const CheckWatcher& watch);

}  // namespace lamina::conformance
