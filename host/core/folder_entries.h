// Lists a folder that may be absent.
#pragma once

#include <filesystem>
#include <vector>

namespace lamina {

// Returns what `folder` contains, in the order of the file system; nothing if it cannot be opened.
// Throws std::bad_alloc if it cannot be opened for lack of memory, so that files never seem absent
// then; fs::filesystem_error if reading fails later.
std::vector<std::filesystem::directory_entry> folder_entries(const std::filesystem::path& folder);

}  // namespace lamina
