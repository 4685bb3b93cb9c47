// What a file is that is not of the format it should be.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace lamina::io {

// From its first bytes: "this looks like ..." with what to do; "" if they tell nothing.
std::string looks_like(std::span<const std::byte> bytes);

// Whether the file is what git has in the place of a large file that was not fetched.
bool is_lfs_pointer(const std::string& path);
// Throws a UserError (class checkpoint) if it is.
void refuse_lfs_pointer(const std::string& path);

// Returns the snapshot inside a folder of the Hub's cache ("models--org--name"): the one of branch
// main, else the first; "" for any other directory.
std::string hub_snapshot(const std::string& directory);

// What to do about a directory that lacks files of a model, from what it holds instead: "it holds
// ...", or what a person should fetch or convert.
std::string what_is_there(const std::string& directory);

}  // namespace lamina::io
