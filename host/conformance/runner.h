// Runs checks in processes of their own: a plugin that crashes, hangs or takes all memory ends its
// own check and no other.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "conformance/result.h"
#include "conformance/subject.h"

namespace lamina::conformance {

// The words after the program's name that run one check as it is run in a process of its own.
std::vector<std::string> replay_words(const Check& check, const PluginSubject& plugin);

// Called as checks begin and end, in the order of the table: `done` is null as one begins.
using Watcher = std::function<void(const Check& check, const Result* done)>;

// Runs `checks`, those of the file in this process and before all others, which are left out where
// the file is one that no host loads. `program` is lamina.
std::vector<Result> run_checks(std::span<const Check* const> checks, const PluginSubject& plugin,
                               const std::filesystem::path& program, const Watcher& watch);

}  // namespace lamina::conformance
