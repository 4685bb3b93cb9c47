// Checks who can change a plugin file. A plugin runs with the rights of the program, so a program
// that runs as root must not load one that any user can replace. Links to the file count too, and
// the folders that contain it or a link: exchanging an entry of these replaces the file.
#pragma once

#include <filesystem>
#include <string>

namespace lamina::registry {

// Returns why root should not run the file at `path`, which may contain links: it, or a link to it,
// can be replaced by any user. Returns "" otherwise.
std::string writable_by_anyone(const std::filesystem::path& path);

// Returns why another user can replace it: the file, a link to it, or a folder that contains one of
// them belongs to neither root nor the user that the program runs as. Returns "" otherwise.
std::string owned_by_another(const std::filesystem::path& path);

}  // namespace lamina::registry
