// Directories of files that are written, and the error for what fails there.
#pragma once

#include <string>
#include <string_view>

namespace lamina::io {

// The directory that holds `path`: "." where it names none.
std::string parent_directory(const std::string& path);

// Creates the directory that holds `path` if there is none. A DeviceError if that fails.
void make_folder_of(const std::string& path);

// Throws the DeviceError of class checkpoint of "DIR: cannot be created: Permission denied".
[[noreturn]] void fail_at(const std::string& path, std::string_view doing, int error_number);

}  // namespace lamina::io
