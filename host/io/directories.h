// Directories of output files, and the error for failures in them.
#pragma once

#include <string>
#include <string_view>

namespace lamina::io {

// Returns the directory of `path`; "." if it has none.
std::string parent_directory(const std::string& path);

// Returns `path` without "/" and "/." at its end: the same directory.
std::string trimmed_path(std::string path);

// Creates a directory if it is missing; those above it must exist. Errors: DeviceError.
void make_folder(const std::string& path);

// Likewise, the directory of `path`.
void make_folder_of(const std::string& path);

// Likewise, with those above it.
void make_folders_of(const std::string& path);

// Returns the link at `path`, or in the folders above it, whose target is missing; "" if there is
// none. A target that cannot be looked up counts as present.
std::string dangling_link_in(const std::string& path);

// Throws the UserError of class usage that names such a link.
void refuse_dangling_link(const std::string& path);

// Throws the DeviceError of class checkpoint "DIR: cannot be created: Permission denied". Its note
// names a dangling link.
[[noreturn]] void fail_at(const std::string& path, std::string_view doing, int error_number);

}  // namespace lamina::io
