// Lists a folder that may be absent.
#pragma once

#include <filesystem>
#include <vector>

namespace lamina {

// Returns what `folder` contains, in the order of the file system; nothing if it cannot be opened.
// For lack of memory or of file descriptors, however, throws std::bad_alloc or DeviceError (exit
// 4), so that files never seem absent then; fs::filesystem_error if reading fails later.
std::vector<std::filesystem::directory_entry> folder_entries(const std::filesystem::path& folder);

}  // namespace lamina
