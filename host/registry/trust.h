// Who may change a plugin file. A plugin runs with the rights of the program, so a program that
// runs as root must not load one that any user may replace.
#pragma once

#include <filesystem>
#include <string>

namespace lamina::registry {

// Why root should not run this file: it, or a file in its folder, may be replaced by any user. ""
// where that is not so.
std::string writable_by_anyone(const std::filesystem::path& path);

// Likewise where one other user may: the file or its folder belongs to neither root nor the user
// that the program runs as.
std::string owned_by_another(const std::filesystem::path& path);

}  // namespace lamina::registry
