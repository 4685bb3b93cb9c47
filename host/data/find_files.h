// Finds the files of data.train and data.validation.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace lamina::data {

// A pattern without files.
class NoFiles : public UserError {
 public:
  NoFiles(std::string pattern, ErrorText text)
      : UserError(ExitCode::data, std::move(text)), pattern_(std::move(pattern)) {}
  const std::string& pattern() const { return pattern_; }

 private:
  std::string pattern_;
};

// Returns the files for `pattern`, sorted. A pattern is a path; a directory, with every file below
// it except hidden ones; or a glob ("books/*.txt"), whose matches are paths or directories. Links
// are followed. A directory that is reached in several ways is read once.
//
// Nothing is skipped silently. Errors (class data): a path that cannot be read, or is neither file
// nor directory; a dangling link. NoFiles: a path that does not exist, a glob without a match, a
// directory without files.
std::vector<std::string> find_files(const std::string& pattern);

// Returns the first file for the patterns whose name ends in .json or .jsonl, perhaps compressed
// (.gz, .zst); "" if there is none. Errors: as find_files().
std::string find_json_file(const std::vector<std::string>& patterns);

}  // namespace lamina::data
