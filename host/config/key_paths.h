// The paths in the values of keys.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "config/key.h"
#include "config/raw.h"

namespace lamina::config {

// Returns the value with `change` applied to each of its paths, if `key` has paths: not to
// special values such as "byte".
Value change_paths(const Key& key, const Value& value,
                   const std::function<std::string(const std::string&)>& change);

// Returns advice about a path that begins with "~" or "~user", a home directory, which only shells
// know: lamina would make a folder of that name. Nothing about other paths.
std::optional<std::string> advice_on_home(std::string_view path);

// Returns the path that has the same place relative to `to` as `path` has relative to `from`. All
// are absolute.
std::string moved_path(const std::string& path, const std::string& from, const std::string& to);

// Changes the paths of a run file that training wrote, if its run directory is `now` and no longer
// the recorded run.out: a path that is gone, but exists at the same place relative to the run
// directory, has moved with it.
void find_moved_paths(Raw& raw, const std::string& now);

}  // namespace lamina::config
