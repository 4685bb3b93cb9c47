// Shortens a path without changing the file that it names.
#pragma once

#include <filesystem>

namespace lamina {

// Returns `path` without ".", double slashes and "x/..". If x is a symbolic link, "x/.." is kept,
// because it names the folder above the link's target. It is also kept if x has a wildcard, which
// can match links. Other paths are as lexically_normal() returns them.
std::filesystem::path without_dots(const std::filesystem::path& path);

}  // namespace lamina
