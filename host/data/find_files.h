// The files that data.train and data.validation name.
#pragma once

#include <string>
#include <vector>

namespace lamina::data {

// The files that `pattern` names, sorted: a path; a directory, with every file in it and below
// except hidden ones; or a glob ("books/*.txt"), of whose matches each is a path or a directory.
// Links are followed. A directory that several ways lead to is read once.
//
// Nothing is left out silently: an error (class data) names the path that does not exist, cannot be
// looked into, or is neither file nor directory; a link that leads nowhere; a glob that matches
// nothing; a directory without files.
std::vector<std::string> find_files(const std::string& pattern);

}  // namespace lamina::data
