// Identifies files that are not of the expected format.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace lamina::io {

// Returns "this looks like ..." with advice, from the first bytes of a file; "" if they are
// unknown.
std::string looks_like(std::span<const std::byte> bytes);

// Returns whether the file is a Git LFS pointer, the placeholder of a large file that was not
// fetched.
bool is_lfs_pointer(const std::string& path);
// Throws a UserError (class checkpoint) if it is.
void refuse_lfs_pointer(const std::string& path);

// Returns the snapshot inside a folder of the Hub's cache ("models--org--name"): the one of branch
// main, else the first; "" for any other directory.
std::string hub_snapshot(const std::string& directory);

// Returns advice for a directory without the files of a model, based on its contents: "it contains
// ...", or what to download or convert.
std::string contents_in_words(const std::string& directory);

}  // namespace lamina::io
