// Finds the files of data.train and data.validation.
#pragma once

#include <string>
#include <vector>

namespace lamina::data {

// Returns the files for `pattern`, sorted. A pattern is a path; a directory, with every file below
// it except hidden ones; or a glob ("books/*.txt"), whose matches are paths or directories. Links
// are followed. A directory that is reached in several ways is read once.
//
// Nothing is skipped silently. Errors (class data): a path that does not exist, cannot be read, or
// is neither file nor directory; a dangling link; a glob without a match; a directory without
// files.
std::vector<std::string> find_files(const std::string& pattern);

}  // namespace lamina::data
